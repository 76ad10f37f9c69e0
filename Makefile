# One command each. Every target makes `.venv` where it is missing and installs what it needs, once:
# the stamps in .venv/stamps are renewed when pyproject.toml changes.
#
#   make run PYTHON=python3.12        choose the interpreter (Python 3.11 or newer)
#   make run ARGS=--full              the experiments at full size, about an hour; see `koloss reproduce --help`
#   make arena ARGS=--quick           a small arena without peers, a minute; see `python -m arena --help`
#   make check                        lint, types and the quick tests, while working
#   make test WORKERS=4               tests side by side (2 unless told)
#   make test-faults ARGS=--quick     six minutes of faults, hostile input and chaos; see `python -m tests.faults --help`
#   make test-lowest PYTHON=python3.11  the lowest versions that are declared, in .venv-lowest
#   make test-torch TORCH=torch       choose the torch requirement

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=
TORCH ?= torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
LOWEST := .venv-lowest

# What `pip install` is given for each stamp.
needs_run := --editable '.[report]'
needs_arena := --editable '.[report]' --group arena
needs_lint := --editable '.[report]' --group lint
needs_docs := --editable . --group docs
needs_test := --editable '.[report,parquet,distributed]' --group test
needs_bench := --editable '.[report]' --group bench
needs_torch := '$(TORCH)' triton

# Tests start many interpreters. Where the environment forbids to keep what was compiled, each would compile the library anew.
in_tests := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run arena arena-test check test test-faults test-lowest test-torch test-wheel bench docs lint review format clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMPS)/run ## play the paper's experiments, about three minutes on two cores; report in build/report/report.html
	$(BIN)/koloss reproduce --out build/report $(ARGS)

arena: $(STAMPS)/arena ## every learner and every peer on the same games; page in build/arena/arena.html (ARGS=--quick: a minute)
	$(BIN)/python -m arena --out build/arena $(ARGS)

arena-test: $(STAMPS)/test ## tests of the arena; those of a peer are skipped where it is not installed (`make arena` does)
	$(in_tests) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal arena

check: lint $(STAMPS)/test ## lint, types and the quick tests, for use while working
	$(in_tests) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q --check -m 'not slow and not process and not faults' tests

test: lint docs review $(STAMPS)/test ## everything: lint, types, docs, repository checks, tests and doctests
	$(in_tests) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-faults: $(STAMPS)/test ## kills, full disks, planted bugs, 150,000 hostile inputs, fresh seeds, chaos: an hour (ARGS=--quick: six minutes)
	$(in_tests) $(BIN)/python -m tests.faults --workers $(WORKERS) $(ARGS)

# Old packages call what newer ones beside them have deprecated, which is for neither of us to mend.
test-lowest: $(LOWEST)/stamp ## tests and doctests with the lowest versions that pyproject.toml allows (Python 3.11)
	$(in_tests) $(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist worksteal -W ignore::DeprecationWarning

test-wheel: $(STAMPS)/test ## a wheel in empty environments, its dependencies fetched by pip
	KOLOSS_WHEEL=fetch $(BIN)/python -m pytest -m faults tests/faults/test_wheel.py

test-torch: $(STAMPS)/test $(STAMPS)/torch ## the tests over array libraries, torch among them
	$(BIN)/python -m pytest -m xp tests

bench: $(STAMPS)/bench ## ratios against peers and the hardware limit, a quarter of an hour; writes docs/benchmarks.md (ARGS=designs: that group)
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(STAMPS)/docs ## build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --site-dir build/site

lint: $(STAMPS)/lint ## ruff (lint and format) and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

review: $(STAMPS)/lint ## the Scientific Python repository checks
	@echo 'sp-repo-review: the Scientific Python checks'
	@said=$$($(BIN)/sp-repo-review --show err . 2>&1) || { echo "$$said"; exit 1; }

format: $(STAMPS)/lint ## mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## remove the environments and everything built
	rm -rf $(VENV) $(LOWEST) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Dependency groups need pip 25.1, newer than what many interpreters bring along.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Koloss needs Python 3.11 or newer, and '$(PYTHON)' is not;" \
			"name one with: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/%: pyproject.toml | $(STAMPS)/venv
	$(BIN)/python -m pip install -qq $(needs_$*)
	@touch $@

# Made anew when versions change, since some may have to go down.
$(LOWEST)/stamp: pyproject.toml tools/lowest.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
		echo "error: the lowest versions are those of Python 3.11, and '$(PYTHON)' is another;" \
			"name one with: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install -qq --upgrade 'pip>=25.1'
	$(LOWEST)/bin/python tools/lowest.py --extra report --extra parquet --extra distributed --group test >$(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install -qq --constraint $(LOWEST)/constraints.txt $(needs_test)
	@touch $@
