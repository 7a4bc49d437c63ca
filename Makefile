# Everything runs in .venv, which these targets make. `make demo` and `make test` are all a new machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install browser demo test lint types check bench test-lowest clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# The report's tests drive a real browser. Anywhere but on Debian or Ubuntu as root: install chromium by other means.
browser:
	@command -v chromium >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	else echo "no chromium: the report's browser tests are skipped; install it (sudo apt-get install chromium)" >&2; fi

demo: install
	$(BIN)/evenhand run demo --out runs/demo

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

test: lint types browser
	$(BIN)/python -m pytest

bench: install
	for name in cooccurrence stereoset census bios; do $(BIN)/python benchmarks/$$name.py || exit 1; done

test-lowest:
	$(PYTHON) tests/lowest.py

clean:
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
