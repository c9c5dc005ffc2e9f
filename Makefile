# Set-up and every check. Only Python 3.11, make, git and a C compiler are taken for granted.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEV_INSTALLED := $(VENV)/.installed-dev
SERVE_INSTALLED := $(VENV)/.installed-serve
DOCS_INSTALLED := $(VENV)/.installed-docs
BENCH_INSTALLED := $(VENV)/.installed-bench

.PHONY: demo serve test test-all check check-web browser pages embedded fuzz
.PHONY: bench bench-peers bench-check bench-record docs clean

demo: $(INSTALLED)  ## train on the embedded corpus and translate (5 minutes on 2 cores)
	$(BIN)/untold demo

serve: $(SERVE_INSTALLED)  ## the live page, with the model that comes with the package
	$(BIN)/untold serve

# The models of the tests are too small for two threads.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(DEV_INSTALLED)  ## before a push: what is not marked slow (5 minutes on 2 cores)
	$(PYTEST) -m "not slow"

test-all: $(DEV_INSTALLED) browser  ## adds what is slow, with shapes checked and more examples (20 minutes)
	UNTOLD_TYPECHECK=1 HYPOTHESIS_PROFILE=full $(PYTEST) -m "slow or property"

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

RESULTS := benchmarks/results
# As the commands do: see docs/threads.md.
bench bench-peers: export THP_MEM_ALLOC_ENABLE ?= 1
bench: $(BENCH_INSTALLED)  ## speed and memory, as ratios, kept in benchmarks/results; then docs/performance.md
	for preset in tiny base; do \
	  $(BIN)/python benchmarks/train.py --preset $$preset --json $(RESULTS)/train-$$preset.json && \
	  $(BIN)/python benchmarks/train.py --preset $$preset --past-future \
	    --json $(RESULTS)/train-past-future-$$preset.json && \
	  $(BIN)/python benchmarks/decode.py --preset $$preset --json $(RESULTS)/decode-$$preset.json && \
	  $(BIN)/python benchmarks/decode.py --preset $$preset --past-future \
	    --json $(RESULTS)/decode-past-future-$$preset.json \
	  || exit 1; \
	done
	$(BIN)/python benchmarks/decode.py --preset base --int8 --json $(RESULTS)/decode-int8-base.json
	$(BIN)/python benchmarks/train.py --rnmt --json $(RESULTS)/train-rnmt.json
	$(BIN)/python benchmarks/routing.py --json $(RESULTS)/routing.json
	$(BIN)/python benchmarks/roofline.py --json $(RESULTS)/roofline.json
	$(BIN)/python benchmarks/huggingface.py --threads 1 --json $(RESULTS)/huggingface-tiny.json
	$(BIN)/python benchmarks/scaling.py --json $(RESULTS)/scaling.json
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/threads.py
	$(BIN)/python benchmarks/page.py --write

bench-peers: $(BENCH_INSTALLED)  ## training beside other toolkits, in environments of their own
	$(BIN)/python benchmarks/peer_environments.py
	for preset in tiny base; do for malloc in default raised; do \
	  $(BIN)/python benchmarks/train_peers.py --preset $$preset --malloc $$malloc \
	    --json $(RESULTS)/train-peers-$$preset-$$malloc.json || exit 1; \
	done; done
	$(BIN)/python benchmarks/page.py --write

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
