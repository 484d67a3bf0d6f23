# The two commands of the README on a machine that has nothing else:
#   docker build -t bondic .
#   docker run --rm bondic              # make demo
#   docker run --rm bondic make test
FROM python:3.12-slim

# Any version of these three will do: what bondic computes with is pinned in constraints.txt.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends chromium git make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /bondic
COPY . .
RUN git config --global --add safe.directory /bondic && make .venv/.stamp-test

CMD ["make", "demo"]
