# Set-up and every check. Only Python 3.11, make, git and a C compiler are taken for granted.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEV_INSTALLED := $(VENV)/.installed-dev
SERVE_INSTALLED := $(VENV)/.installed-serve
DOCS_INSTALLED := $(VENV)/.installed-docs
BENCH_INSTALLED := $(VENV)/.installed-bench

.PHONY: demo serve test test-slow test-all check check-web browser pages embedded fuzz
.PHONY: bench bench-peers bench-check bench-record docs clean

demo: $(INSTALLED)  ## train on the embedded corpus and translate (5 minutes on 2 cores)
	$(BIN)/untold demo

serve: $(SERVE_INSTALLED)  ## the live page, with the model that comes with the package
	$(BIN)/untold serve

# The models of the tests are too small for two threads.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(DEV_INSTALLED)  ## before a push: what is not marked slow (5 minutes on 2 cores)
	$(PYTEST) -m "not slow"

test-slow: $(DEV_INSTALLED) browser  ## what make test leaves out, with shapes checked and more examples
	UNTOLD_TYPECHECK=1 HYPOTHESIS_PROFILE=full $(PYTEST) -m "slow or hypothesis"

test-all: test test-slow  ## all tests (25 minutes)

check: $(DEV_INSTALLED) check-web  ## style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports

# The pages need no Node; where it is there, it checks their types and their style.
WEB_INSTALLED := tests/web/node_modules/.installed
check-web:  ## types and style of the modules of the web pages
	@if command -v npm > /dev/null; then $(MAKE) -s $(WEB_INSTALLED) && cd tests/web && npm run --silent check; \
	else echo "Node is not installed: src/untold/web is neither type-checked nor linted"; fi

$(WEB_INSTALLED): tests/web/package.json
	cd tests/web && npm install --silent --no-package-lock --no-audit --no-fund
	touch $@

# Tests of the web page drive Debian's chromium.
browser:  ## installs chromium where it is missing
	@command -v chromium > /dev/null || { \
	  sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends chromium; }

pages: $(DEV_INSTALLED)  ## docs/results.md, from the files in docs/evidence
	$(BIN)/python -m untold.lab.pages docs/evidence docs

EMBEDDED := src/untold/embedded/en-de
embedded: $(INSTALLED)  ## trains the model that comes with the package (20 minutes on one core)
	$(BIN)/untold sample en-de --pairs 40000 --seed 7 --out data/en-de
	$(BIN)/untold train configs/grammar-en-de.toml --out runs/en-de --set train.schedule=linear
	$(BIN)/untold train configs/grammar-en-de-past-future.toml --init runs/en-de --out runs/en-de-gdr
	rm -rf $(EMBEDDED)
	$(BIN)/untold average runs/en-de-gdr --last 1 --half --out $(EMBEDDED)
	$(BIN)/untold calibrate $(EMBEDDED) --source data/en-de/dev.en --target data/en-de/dev.de

fuzz: $(DEV_INSTALLED)  ## generated input for 10 minutes; SEED=n chooses other cases
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz --seed $(or $(SEED),1)

# Makes the runs of benchmarks/runs.txt whose lines grep finds. A run that fails hides no other, but the exit code
# says so. What is done is not run again until all runs are done; `rm -r build/bench` begins anew.
define run_benchmarks
@mkdir -p build/bench; grep $(1) benchmarks/runs.txt | { failed=; \
while read -r name script; do \
  if test -e build/bench/$$name; then echo "== $$name: done before"; continue; fi; \
  echo "== $$name: $$script"; \
  $(BIN)/python benchmarks/$$script --json benchmarks/results/$$name.json < /dev/null \
    && touch build/bench/$$name || failed="$$failed $$name"; \
done; \
$(BIN)/python benchmarks/page.py --write || failed="$$failed page.py"; \
if test -n "$$failed"; then echo "failed:$$failed; the same command goes on with them"; exit 1; fi; }
@rm -r build/bench
endef

# As the commands do: torch may use pages of 2 MB.
bench bench-peers: export THP_MEM_ALLOC_ENABLE ?= 1
bench: $(BENCH_INSTALLED)  ## speed, memory and quality, kept in benchmarks/results; then docs/performance.md
	$(call run_benchmarks,-v train_peers.py)

bench-peers: $(BENCH_INSTALLED)  ## training beside other toolkits, in environments of their own
	$(BIN)/python benchmarks/train_peers.py --build
	$(call run_benchmarks,train_peers.py)

bench-check: $(BENCH_INSTALLED)  ## fails if a kernel has lost more than 10 % of its speed
	$(BIN)/python benchmarks/guard.py

bench-record: $(BENCH_INSTALLED)  ## records the speed of the kernels for bench-check
	$(BIN)/python benchmarks/guard.py --record

docs: $(DOCS_INSTALLED)  ## the documentation as a site in site/
	$(BIN)/zensical build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The kernels in C are compiled by pip, so it runs again when they change.
NEEDED := $(VENV)/bin/python pyproject.toml constraints.txt $(wildcard src/untold/inference/csrc/*.[ch])

$(INSTALLED): $(NEEDED)  # the package alone, as users have it
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(DEV_INSTALLED): $(NEEDED)  # and what the tests need
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[align,ctranslate2,dev,files,hf,onnx,rouge,serve,zh]'
	touch $(INSTALLED) $@

$(SERVE_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[files,serve]'
	touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

$(BENCH_INSTALLED): $(DEV_INSTALLED)  # Marian is raced, too: it needs hf
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	touch $@

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis site
