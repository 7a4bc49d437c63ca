# Everything runs in .venv, which these targets make. `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test lint types check bench test-lowest clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/evenhand run demo --out runs/demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest

bench: install
	$(BIN)/python benchmarks/cooccurrence.py

test-lowest:
	$(PYTHON) tests/lowest.py

clean:
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
