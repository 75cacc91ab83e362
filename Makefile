# Every target sets up its own virtual environment first; nothing but python3 (3.11 or later) is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export MPLBACKEND := Agg

.PHONY: demo test test-all bench lint format clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/widefield demo --folder demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

test-all: lint
	$(BIN)/pytest -n 2 --dist loadfile

bench: $(READY)
	$(BIN)/python benchmarks/finite_width.py
	$(BIN)/python benchmarks/infinite_width.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
