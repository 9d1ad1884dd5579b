# servestudy. `make` sets up a Python environment in .venv and makes everything; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all
.PHONY: all smoke real paper-run test lint format lock clean help setup

CORES ?= all
# The first that is there and new enough; another one: make PYTHON=/path/to/python3
PYTHON ?= python3.11 python3.12 python3.13 python3.14 python3
VENV := .venv
SNAKEMAKE := $(VENV)/bin/snakemake --cores $(CORES)
PIP := $(VENV)/bin/python -m pip -qq --disable-pip-version-check --no-input

all: setup ## set up, then the default run: embedded traces, no network needed
	@echo "Run: embedded traces (synthetic), config/config.yaml; about 2 minutes on 2 cores"
	@$(SNAKEMAKE)

smoke: setup ## the whole workflow on 4 windows a source
	@echo "Run: smoke, config/smoke.yaml; about half a minute"
	@$(SNAKEMAKE) --configfile config/smoke.yaml

real: setup ## three public traces, 5 MB to download (or SERVESTUDY_TRACE_MIRROR=<folder>)
	@echo "Run: real traces, config/real.yaml; about 2 minutes on 2 cores"
	@$(SNAKEMAKE) --configfile config/real.yaml

paper-run: setup ## the published study on its own traces, 1.4 GB to download
	@echo "Run: the published study, config/paper.yaml; about 3 minutes on 2 cores after the download"
	@$(SNAKEMAKE) --configfile config/paper.yaml

test: setup ## all tests, a smoke run of the workflow included
	@echo "Tests; a few minutes"
	@$(VENV)/bin/python -m pytest --numprocesses logical --dist loadfile --no-loadscope-reorder

lint: setup ## check style and workflow
	@echo "Style of Python and workflow files, then Snakemake's own checks; some seconds"
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/snakefmt --check Snakefile workflow
	@$(VENV)/bin/snakemake --lint

format: setup ## apply the style
	@$(VENV)/bin/ruff check --fix
	@$(VENV)/bin/ruff format
	@$(VENV)/bin/snakefmt Snakefile workflow

# What .venv was made of, and where. It is written last, so an interrupted set-up is redone.
RECIPE = { echo "$(CURDIR)"; cat requirements.lock pyproject.toml; }

setup: ## make .venv from requirements.lock, unless it is up to date
	@set -euo pipefail; if $(RECIPE) | cmp -s - $(VENV)/recipe && $(VENV)/bin/python -c ""; then exit 0; fi; \
	is_new_enough='import sys; sys.exit(sys.version_info < (3, 11))'; \
	for candidate in $(PYTHON) ""; do \
	  if [ -n "$$candidate" ] && "$$candidate" -c "$$is_new_enough" 2> /dev/null; then break; fi; \
	done; \
	if [ -z "$$candidate" ]; then \
	  echo "No Python 3.11 or newer was found: install python3.11 with its venv module, or name one: make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "Set-up 1/3: empty environment .venv with $$("$$candidate" --version); some seconds"; \
	"$$candidate" -m venv --clear $(VENV); \
	echo "Set-up 2/3: $$(grep -c == requirements.lock) packages of requirements.lock; about a minute, 1 GB on disk"; \
	trap 'echo "Set-up failed: is the package index within reach? make starts it over." >&2' ERR; \
	$(PIP) install --no-deps --requirement requirements.lock; \
	echo "Set-up 3/3: servestudy itself; some seconds"; \
	$(PIP) install --no-deps --editable .; \
	$(RECIPE) > $(VENV)/recipe

lock: ## pin the newest versions that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-annotate --no-header \
	  --upgrade --output-file requirements.lock

clean: ## remove what runs have made; keeps raw traces and .venv
	rm -rf results figures tables

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12
