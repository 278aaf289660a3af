.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV := .venv
# What the queue's own tests need, and what all else needs, too.
READY := $(VENV)/.ready
WHOLE := $(VENV)/.whole
PYTHON := $(VENV)/bin/python
MANAGE := $(PYTHON) testproject/manage.py
PORT ?= 8000

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(WHOLE)  ## real flights through the queue (FLIGHTS=all takes all 336,776)
	@$(MANAGE) migrate --verbosity 0
	@$(MANAGE) demo

admin: $(WHOLE)  ## the admin of the demo project in a browser (PORT=8000)
	@$(MANAGE) migrate --verbosity 0
	@$(MANAGE) demoadmin --port $(PORT)

test-quick: $(READY)  ## before each commit: verbs, schema, worker basics (a minute and a half)
	@$(PYTHON) -m tests.suite quick

test: $(WHOLE)  ## what guards the main path, on throw-away servers (some sixteen minutes on two cores)
	-@.ci/tools
	@$(PYTHON) -m tests.suite $(or $(PARTS),test)

test-all: $(WHOLE)  ## the rest, part by part: servers, Pythons, Djangos, faults, models, browser (PARTS="chaos kills")
	-@.ci/tools
	@$(PYTHON) -m tests.suite $(or $(PARTS),rest)

chaos: $(WHOLE)  ## faults of every kind, and a checked history (TIER=ci|tenth|nightly|release SEED=7)
	$(PYTHON) -m verification.chaos --tier $(or $(TIER),ci) $(if $(SEED),--seed $(SEED)) --model

model: $(WHOLE)  ## the TLA+ models, each as it is and without each guard (some minutes)
	$(PYTHON) -m verification.formal

sabotage: $(WHOLE)  ## defects that are put into the queue: is each noticed? (ten minutes or so)
	$(PYTHON) -m verification.chaos sabotage

tools: $(WHOLE)  ## what some tests need beside Python: PgBouncer, libfaketime, Chromium, the tests of Django
	@.ci/tools

bench: $(WHOLE)  ## the benchmarks
	$(PYTHON) -m verification.benchmarks

cost: $(READY)  ## server CPU of each verb, beside other designs (under two minutes; ARGS="--beside ../other")
	@$(PYTHON) -m verification.benchmarks cost $(ARGS)

bench-growth: $(WHOLE)  ## what may grow: backlog, channels, a pinned xmin horizon, dumps (about 45 minutes)
	$(PYTHON) -m verification.benchmarks growth

bench-peers: $(WHOLE)  ## ours beside other queues (installs them in .pgqueue/peers; about four hours; ARGS="--quick")
	$(PYTHON) -m verification.benchmarks peers $(ARGS)

bench-spark: $(WHOLE)  ## the data pipeline beside programs without Spark (ROWS=1000000)
	$(PYTHON) -m verification.benchmarks spark --rows $(or $(ROWS),1000000)

matrix: $(WHOLE)  ## the tests on every Python and Django that is supported and here (ARGS="--whole", "--only 3.13 6.1")
	-@.ci/tools
	$(PYTHON) -m verification.compatibility $(ARGS)

lint: $(WHOLE)  ## style, types, import rules, missing migrations
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-logo
	DATABASE_URL=postgresql:///none $(VENV)/bin/mypy
	$(MANAGE) makemigrations --check --dry-run

docs: $(WHOLE)  ## the documentation as a site, in build/docs; a warning is an error
	$(PYTHON) -m sphinx -q -a -n -W --keep-going -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

psql: $(READY)  ## a psql on the demo's database
	@$(MANAGE) embeddedpg psql

stop: $(READY)  ## stops the embedded server; its data stays
	@$(MANAGE) embeddedpg stop

clean:  ## removes the embedded server with its data, the virtual environment and caches
	@if [ -x $(PYTHON) ]; then $(PYTHON) -c "from django_pgqueue.embedded import Cluster; Cluster('.pgqueue').destroy()"; fi
	rm -rf $(VENV) .pgqueue/matrix .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

INSTALL = $(PYTHON) -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt --editable

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || { python=$$(.ci/python) && \
	  echo "Setting up $(VENV) with $$("$$python" --version) (once) …" && "$$python" -m venv --clear $(VENV); }
	@$(INSTALL) '.[dev]'
	@touch $@

$(WHOLE): $(READY)
	@$(INSTALL) '.[all]'
	@touch $@

.PHONY: help demo admin test test-quick test-all matrix chaos model sabotage tools bench cost bench-growth bench-peers bench-spark lint docs psql stop clean
