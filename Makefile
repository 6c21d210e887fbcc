# make demo: installs everything into .venv and trains on the torus.   make test: every check there is.
# Needs Python >= 3.11 and make. Settings: make demo PYTHON=python3.12 VENV=.venv312 OUT=runs/mine
# pip decides where packages come from: point it at an index of torch's CPU builds and torch takes one of those.

.DEFAULT_GOAL := help
.PHONY: help demo docs site gpu test check unit lint style types layers words format install clean distclean
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV ?= .venv
OUT ?= runs/torus-$(shell date +%Y%m%d-%H%M%S)
WORKERS ?= 2
PIP_INSTALL = $(VENV)/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt

# The first of these that is new enough and can make a virtual environment.
FITS = import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(FITS)' >/dev/null 2>&1 && echo "$$p" && break; done)

help:
	@echo "make demo     install into $(VENV), train the torus experiment, write a report under runs/"
	@echo "make test     install the test extra, run ruff, mypy, import-linter, codespell and the whole test suite"
	@echo "              (make test COVERAGE=1: with a report of the lines that it covers; nearly twice as long)"
	@echo "make check    the same without whole runs, processes and compilation, in about a minute: to be run often"
	@echo "make lint     only ruff, mypy, import-linter and codespell"
	@echo "make gpu      on a machine with a GPU: tests, speeds and a run of the paper's, in nine minutes (docs/how-to/gpu.md)"
	@echo "make docs     fill the tables of the documents from results/"
	@echo "make site     run the tutorials and build the site: site/index.html"
	@echo "make format   let ruff rewrite the code"
	@echo "make clean    remove caches (make distclean: and $(VENV)); never runs/"

demo: $(VENV)/.stamp-niso
	$(VENV)/bin/niso run torus --out $(OUT)

# The suite comes last, so that its closing line does; `make -k test` runs it even when lint fails.
test: lint unit

# One OpenMP thread a worker, sleeping while it waits: batched small SVDs collapse when cores are oversubscribed.
# Bytecode is kept, which each worker and each process of a test would else compile anew. Each file stays in one
# worker, so that what its tests share is made once, and so do tests of compiled programs (tests/conftest.py); files that
# take long come first.
PYTEST = OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1 MPLBACKEND=Agg PYTHONDONTWRITEBYTECODE= \
	$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

unit: $(VENV)/.stamp-test
	$(PYTEST) $(if $(COVERAGE),--cov --cov-report=term)

check: lint $(VENV)/.stamp-test
	$(PYTEST) -m 'not slow'

lint: style types layers words

style: $(VENV)/.stamp-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.stamp-test
	MYPY_NUM_WORKERS=$(WORKERS) $(VENV)/bin/mypy

layers: $(VENV)/.stamp-test
	$(VENV)/bin/lint-imports --no-logo

words: $(VENV)/.stamp-test
	$(VENV)/bin/codespell

format: $(VENV)/.stamp-test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/.stamp-niso
	$(VENV)/bin/python -m tools.documents README.md $(shell find docs -name '*.md')

site: $(VENV)/.stamp-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict --quiet
	@echo "open site/index.html in a browser"

# Installs and downloads nothing: a machine with a GPU may have no network. Settings: make gpu GPU_PYTHON=python3 GPU="--minutes 5"
GPU_PYTHON ?= $(if $(wildcard $(VENV)/bin/python),$(VENV)/bin/python,python3)
GPU ?=
gpu:
	$(GPU_PYTHON) -m benchmarks.on_gpu $(GPU)

install: $(VENV)/.stamp-niso

# A second call installs nothing: each stamp is older than what it was made from only after a change.
$(VENV)/bin/pip:
	@"$(or $(PYTHON),false)" -c '$(FITS)' || { echo \
		"niso needs Python 3.11 or newer with its venv module; name one with: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch by itself first: a build that is there already is kept, and otherwise pip's own settings choose it.
$(VENV)/.stamp-torch: | $(VENV)/bin/pip
	@$(VENV)/bin/python -c 'import torch' 2>/dev/null || { echo "installing torch ..."; $(PIP_INSTALL) torch; }
	@touch $@

$(VENV)/.stamp-niso: pyproject.toml constraints.txt $(VENV)/.stamp-torch
	@echo "installing niso ..."
	@$(PIP_INSTALL) --quiet --editable .
	@touch $@

$(VENV)/.stamp-test: pyproject.toml constraints.txt $(VENV)/.stamp-niso
	@echo "installing niso's test extra ..."
	@$(PIP_INSTALL) --quiet --editable '.[test]'
	@touch $@

$(VENV)/.stamp-docs: pyproject.toml constraints.txt $(VENV)/.stamp-niso
	@echo "installing niso's docs extra ..."
	@$(PIP_INSTALL) --quiet --editable '.[docs]'
	@touch $@

clean:
	rm -rf site .site-cache build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks \
		.coverage .coverage.* htmlcov
	find niso tests benchmarks studies tools -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
