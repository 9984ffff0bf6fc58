# Everything that people and CI do with this project: `make help`.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
HELM := $(if $(BROKERWIRE_CACHE),$(BROKERWIRE_CACHE),.cache)/helm/current
# How long the demo runs: 20s, 5m; empty until Ctrl-C.
FOR ?=

# Not empty: the walk through Kubernetes has the rollups' CronJob, too.
ROLLUPS ?=

.DEFAULT_GOAL := help
.PHONY: help demo dist setup tools prometheus helm chart container-tools image e2e-kubernetes lab fmt lint docs docs-check dashboards check prepare test test-fast test-spark test-ondemand bench bench-rollups golden lock clean

help: ## Show what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(BIN)/brokerwire ## Install into .venv and run the demo; FOR=20s ends by itself
	$(BIN)/brokerwire demo $(if $(FOR),--for $(FOR))

$(BIN)/brokerwire: requirements/runtime.txt pyproject.toml
	@$(PYTHON) tools/need_python.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements/runtime.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.test: requirements/test.txt $(BIN)/brokerwire
	$(BIN)/pip install --quiet --require-hashes -r requirements/test.txt
	@touch $@

$(VENV)/.spark: requirements/spark.txt $(VENV)/.test
	$(BIN)/pip install --quiet --require-hashes -r requirements/spark.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.test
	$(BIN)/pip install --quiet --require-hashes -r requirements/bench.txt
	@touch $@

setup: $(VENV)/.test ## Install brokerwire and what its tests need into .venv

tools: ## Install what the tests need from Debian: a JDK, Maven, a C compiler, Chromium, ss
	tools/install_test_tools.sh

prometheus: ## Unpack Prometheus and Alertmanager into .cache
	tools/install_prometheus.sh

helm: ## Build helm, helm-unittest, helm-docs and kubeconform into .cache (5 minutes of CPU)
	tools/install_helm_tools.sh

container-tools: ## Install podman, buildah, runc and mmdebstrap from Debian
	tools/install_container_tools.sh

dist: setup helm ## Build wheels, sdists, the chart's package and their checksums into dist/
	tools/release.sh

image: ## Build the agent's image with podman, buildah or docker
	tools/build_image.sh

e2e-kubernetes: lab helm prometheus container-tools ## Build a real Kubernetes 1.36 (25 minutes once) and walk the chart through it; ROLLUPS=1 adds the CronJob
	tools/kubernetes/build.sh
	$(BIN)/python -m tests.kubernetes --write $(if $(ROLLUPS),--rollups)

chart: docs helm ## Write what the chart has copies of, its schema and its README
	$(HELM)/helm-docs -c helm/brokerwire --sort-values-order file

lab: setup tools ## Fetch Kafka and its clients into .cache and compile the test clients
	$(BIN)/python -m tests.lab.fetch

fmt: setup ## Format the code
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

lint: setup ## Lint, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup ## Write the reference pages and the dashboards anew from the code
	$(BIN)/python -m tools.dashboards
	$(BIN)/python -m tools.render_docs

docs-check: setup
	$(BIN)/python -m tools.render_docs --check
	$(BIN)/python -m tools.dashboards --check

dashboards: docs ## The Grafana dashboards, and the chart's copies of them

check: lint docs-check test-fast ## What to run before a push: a minute, no brokers

test-spark: setup $(VENV)/.spark tools ## The tests of the rollups, brokers left out
	$(BIN)/pytest -q -m "spark and not lab and not ondemand"

test-ondemand: setup $(VENV)/.spark lab ## The tests that are not yet part of every run: Spark's stream, a cluster of its own, most alerts end to end
	$(BIN)/pytest -m ondemand

test-fast: setup ## The tests that need no broker and no browser
	$(BIN)/pytest -q -m "not lab and not browser and not helm and not container and not spark"

test: prepare lint docs-check ## Install what the tests need and pass all of them
	tools/run_tests.sh

# What takes long and needs little of the rest goes on beside it.
prepare:
	@$(MAKE) --no-print-directory helm & helm=$$!; \
	$(MAKE) --no-print-directory setup tools && \
	$(MAKE) --no-print-directory container-tools prometheus lab $(VENV)/.spark && wait $$helm

bench: setup ## Make the figures of docs/internals/performance.md (half an hour), those of the rollups left as they are
	$(BIN)/python -m bench

bench-rollups: setup $(VENV)/.spark $(VENV)/.bench tools ## Those of the rollups: Spark, DuckDB, Polars, up to 50 million records (hours)
	$(BIN)/python -m bench rollups

golden: setup ## Record the golden files again
	$(BIN)/python tools/record_sock_diag.py tests/golden/sock_diag
	$(BIN)/python -m tools.older_dumps tests/golden/sock_diag
	$(BIN)/python -m tests.golden.metrics.expected
	$(BIN)/python -m tests.golden.cli.expected

lock: ## Lock the requirements anew, with hashes and without addresses
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --python-version 3.11 pyproject.toml -o requirements/runtime.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --python-version 3.11 pyproject.toml --group test -o requirements/test.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --python-version 3.11 pyproject.toml --extra spark --constraint requirements/test.txt -o requirements/spark.txt
	uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --python-version 3.11 --constraint requirements/spark.txt --group bench -o requirements/bench.txt

clean: ## Remove what was installed and built here
	rm -rf $(VENV) .cache dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
