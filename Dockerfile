# engine in a container: sessions for clients, over HTTP and a WebSocket. docs/how-to/run-in-a-container.md says how to
# run it, with a read-only root. Two directories are mounted: /data, the home of its user, and /project.
FROM python:3.13-slim AS build
WORKDIR /source
COPY requirements/core.txt requirements/core.txt
RUN python -m venv /opt/engine && /opt/engine/bin/pip install --no-cache-dir --requirement requirements/core.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs/man docs/man
COPY engine engine
RUN /opt/engine/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
# What commands of the model usually need. The image's package manager has no versions worth pinning.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends bash bubblewrap git && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/engine /opt/engine
RUN install --directory --owner=10001 --group=10001 --mode=0700 /data /project
ENV PATH=/opt/engine/bin:$PATH HOME=/data PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /project
VOLUME ["/data", "/project"]
EXPOSE 7433
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7433/readyz', timeout=4)"]
ENTRYPOINT ["engine"]
# Reached only through the port that you publish: docs/how-to/run-in-a-container.md publishes it on this machine alone.
CMD ["serve", "--listen", "0.0.0.0", "--port", "7433", "--insecure-plain"]
