# Every target sets up its own virtual environment first; nothing but python3 (3.11 or later) is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# neural-tangents, with which we compare, needs an old jax, and so an environment and a Python (3.11) of its own.
PEER := .venv-neural-tangents
PEER_PYTHON ?= $(PYTHON)
PEER_READY := $(PEER)/.ready
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal
export MPLBACKEND := Agg

.PHONY: browser demo peer test test-all test-slow-share bench bench-claims faults lint format clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

$(PEER_READY): benchmarks/requirements-neural-tangents.txt
	$(PEER_PYTHON) -m venv $(PEER)
	$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $(PEER_READY)

peer: $(PEER_READY)

demo: $(READY)
	$(BIN)/widefield demo --folder demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=tests $(BIN)/lint-imports --no-cache

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

# An eighth of the slow tests, another one with every commit, for twenty minutes at most.
SEED ?= $(shell git rev-parse HEAD)
test-slow-share: $(READY)
	$(PYTEST) --slow-share="$(SEED)" --slow-minutes=20

bench: $(READY)
	-$(MAKE) peer
	$(BIN)/python benchmarks/finite_width.py
	$(BIN)/python benchmarks/infinite_width.py
	$(BIN)/python benchmarks/independent_solvers.py
	$(BIN)/python benchmarks/static_kernels.py
	$(BIN)/python benchmarks/empirical_kernels.py
	$(BIN)/python benchmarks/vertex_flow.py
	$(BIN)/python benchmarks/metric_sampler.py
	$(BIN)/python benchmarks/proportional.py
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/speed_claims.py

# Damaged files, hostile input, killed processes, very many of each: about half an hour.
faults: $(READY)
	$(BIN)/python tests/faults/report.py

# The report of a study in headless Chromium, which must be there: apt-get install chromium.
browser: $(READY)
	@command -v chromium chromium-browser "$$CHROMIUM" > /dev/null || { echo "no Chromium: apt-get install chromium"; exit 1; }
	$(PYTEST) tests/studies/test_report_in_browser.py

# Ratios that are claimed, against benchmarks/floors.toml; ends with an error where one fails.
bench-claims: $(READY)
	$(BIN)/python benchmarks/speed_claims.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(PEER) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
