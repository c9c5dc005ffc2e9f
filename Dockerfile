# docker build -t untold .
# docker run --rm -p 127.0.0.1:8000:8000 -e UNTOLD_API_KEY -v /srv/models/en-de:/models/en-de:ro \
#   --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges --stop-timeout 30 \
#   untold serve /models/en-de --host 0.0.0.0
FROM python:3.11-slim AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/untold \
 && /opt/untold/bin/pip install --quiet --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    -c constraints.txt '.[serve,files]'

FROM python:3.11-slim
# OpenMP, which the kernels and torch compute with.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --no-create-home untold
COPY --from=build /opt/untold /opt/untold
ENV PATH=/opt/untold/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 XDG_CACHE_HOME=/tmp
USER untold
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD \
  ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["untold"]
CMD ["serve", "--host", "0.0.0.0"]
