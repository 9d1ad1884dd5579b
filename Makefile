# servestudy. `make` sets up a Python environment in .venv and makes everything; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all
.PHONY: all smoke real paper-run report spotcheck test-spotcheck test lint format lock readme clean help setup setup-spotcheck

CORES ?= all
# The first that is there and new enough; another one: make PYTHON=/path/to/python3
PYTHON ?= python3.11 python3.12 python3.13 python3.14 python3
VENV := .venv
VENV_SPOTCHECK := .venv-spotcheck
LOCK := requirements.lock
LOCK_SPOTCHECK := requirements-spotcheck.lock
SNAKEMAKE := $(VENV)/bin/snakemake --cores $(CORES)
PIP_INSTALL := -m pip -qq --disable-pip-version-check --no-input install

DEFAULT_RUN := results/embedded figures tables paper/paper.pdf
# The HTML report of a run, unless it is newer than all that it shows: $(call report,folder of it,what it shows,options)
define report
@if [ ! -e $(1)/report.zip ] || [ -n "$$(find $(2) workflow/report -newer $(1)/report.zip -type f -print -quit)" ]; then \
  echo "Report: $(1)/report.zip, open report.html in it; some seconds"; \
  mkdir -p $(1)/report.part; \
  told=$$($(SNAKEMAKE) --report $(1)/report.part/report.zip $(3) 2>&1) || { echo "$$told" >&2; exit 1; }; \
  mv $(1)/report.part/report.zip $(1)/report.zip; \
  rmdir $(1)/report.part; \
fi
endef

all: setup ## set up, then the default run: embedded traces, no network needed
	@echo "Run: embedded traces (synthetic), config/config.yaml; 5 to 10 minutes on 2 cores"
	@$(SNAKEMAKE)
	$(call report,results,$(DEFAULT_RUN))

smoke: setup ## the whole workflow on 4 windows a source
	@echo "Run: smoke, config/smoke.yaml; about half a minute"
	@$(SNAKEMAKE) --configfile config/smoke.yaml
	$(call report,results/smoke,results/smoke,--configfile config/smoke.yaml)

real: setup ## three public traces, 5 MB to download (or SERVESTUDY_TRACE_MIRROR=<folder>)
	@echo "Run: real traces, config/real.yaml; about 8 minutes on 2 cores"
	@$(SNAKEMAKE) --configfile config/real.yaml
	$(call report,results/real,results/real,--configfile config/real.yaml)

paper-run: setup ## the published study on its own traces, 1.4 GB to download
	@echo "Run: the published study, config/paper.yaml; about 8 minutes on 2 cores after the download"
	@$(SNAKEMAKE) --configfile config/paper.yaml
	$(call report,results/paper,results/paper,--configfile config/paper.yaml)

report: setup ## the HTML report of the default run; the runs above make theirs
	$(call report,results,$(DEFAULT_RUN))

DEVICE ?= cpu
PRESET ?= $(if $(filter cpu,$(DEVICE)),tiny,7b)

spotcheck: setup-spotcheck ## measure a real serving engine anew; on a GPU: make spotcheck DEVICE=cuda PRESET=7b
	@echo "Run: the spot-check on $(DEVICE), preset $(PRESET); about 7 minutes"
	@$(VENV_SPOTCHECK)/bin/python -m snakemake spotcheck --cores $(CORES) \
	  --config spotcheck="{device: $(DEVICE), preset: $(PRESET), measure: true}"

test-spotcheck: setup-spotcheck ## the tests of the spot-check that need torch and transformers
	@$(VENV_SPOTCHECK)/bin/python -c "import torch, transformers"
	@OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=0 $(VENV_SPOTCHECK)/bin/python -m pytest -q tests/test_spotcheck_engine.py \
	  tests/test_spotcheck_virtual_clock.py tests/test_spotcheck_vllm.py

test: setup ## all tests, a smoke run of the workflow included
	@echo "Tests; about 10 minutes on 2 cores"
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
RECIPE = { echo "$(CURDIR)"; cat $(LOCK) pyproject.toml; }

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
	echo "Set-up 1/3: empty environment $(VENV) with $$("$$candidate" --version); some seconds"; \
	"$$candidate" -m venv --clear $(VENV); \
	echo "Set-up 2/3: $$(grep -c == $(LOCK)) packages of $(LOCK); about a minute, 1 GB on disk"; \
	trap 'echo "Set-up failed: is the package index within reach? make starts it over." >&2' ERR; \
	$(VENV)/bin/python $(PIP_INSTALL) --no-deps --requirement $(LOCK); \
	echo "Set-up 3/3: servestudy itself; some seconds"; \
	$(VENV)/bin/python $(PIP_INSTALL) --no-deps --editable .; \
	$(RECIPE) > $(VENV)/recipe

# Torch and transformers beside .venv, whose packages it sees and which stays without them. Some builds of torch bring
# packages that no lock names, so pip looks for what is missing.
RECIPE_SPOTCHECK = { $(RECIPE); cat $(LOCK_SPOTCHECK); }

setup-spotcheck: setup ## make .venv-spotcheck, unless it is up to date
	@set -euo pipefail; \
	if $(RECIPE_SPOTCHECK) | cmp -s - $(VENV_SPOTCHECK)/recipe && $(VENV_SPOTCHECK)/bin/python -c "import numpy"; then \
	  exit 0; \
	fi; \
	echo "Set-up of $(VENV_SPOTCHECK): torch and transformers beside $(VENV); about half a minute, 1 GB on disk"; \
	$(VENV)/bin/python -m venv --clear --without-pip $(VENV_SPOTCHECK); \
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	echo "import site; site.addsitedir('$$($(VENV)/bin/python -c "$$packages")')" \
	  > "$$($(VENV_SPOTCHECK)/bin/python -c "$$packages")/$(VENV).pth"; \
	trap 'echo "Set-up failed: is the package index within reach? The same command starts it over." >&2' ERR; \
	$(VENV_SPOTCHECK)/bin/python $(PIP_INSTALL) --no-compile --requirement $(LOCK_SPOTCHECK); \
	$(VENV_SPOTCHECK)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .; \
	$(RECIPE_SPOTCHECK) > $(VENV_SPOTCHECK)/recipe

lock: ## pin the newest versions that pyproject.toml allows (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-annotate --no-header \
	  --upgrade --output-file requirements.lock
	uv pip compile pyproject.toml --extra dev --extra spotcheck --universal --python-version 3.11 --no-annotate \
	  --no-header --constraints requirements.lock --quiet | grep -vE '^(nvidia|cuda|triton)' > requirements-spotcheck.lock

readme: ## renew the README's figure and its list of figures and tables from the default run
	@$(VENV)/bin/servestudy readme
	@cp figures/audit/models_tau.svg docs/models_tau.svg

clean: ## remove what runs have made; keeps raw traces and .venv
	rm -rf results figures tables paper/paper.pdf

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 17
