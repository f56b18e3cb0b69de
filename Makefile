# Everything runs in a private .venv, which the first command makes. Needed: make, and a Python of 3.11 or later.
# Another Python: make test PYTHON=python3.12 (the .venv is then made anew).

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# One stamp for the environment, named after the Python that made it, and one for what is installed in it.
MADE      := $(VENV)/.made-by-$(subst /,_,$(PYTHON))
INSTALLED := $(VENV)/.installed
BENCH     := $(VENV)/.installed-bench

.PHONY: demo test first-half second-half on-sqlite check format bench bench-durable fuzz clean
.DELETE_ON_ERROR:

demo: $(INSTALLED)
	$(BIN)/tickless run examples/world_clocks.py:scheduler

# PYTHONHASHSEED fixes the order of sets; tests/conftest.py fixes Hypothesis. So a failure fails again. Processes that
# tests start find compiled modules, also where PYTHONDONTWRITEBYTECODE is set: else each compiles tickless anew.
# Two halves side by side, of about the same length; a new folder is in the second. Whichever ends first is followed by
# the tests on SQLite: what tests/stores/sql/differences.py lists. By make and not by the shell's `&`, in which SIGINT
# is ignored, and tests send that.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=0 HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -q
HALF   := cases cli commands control core examples faults house observe planted policies pools properties taskfile
LATER  = > $(VENV)/$@.log 2>&1; status=$$?; cat $(VENV)/$@.log; exit $$status

test: $(INSTALLED)
	@$(MAKE) --no-print-directory -j2 first-half second-half on-sqlite

first-half: $(INSTALLED)
	@$(PYTEST) $(addprefix tests/,$(HALF)) $(LATER)

second-half: $(INSTALLED)
	$(PYTEST) tests $(addprefix --ignore=tests/,$(HALF))

on-sqlite: $(INSTALLED)
	@TEST_STORE=sqlite $(PYTEST) tests $(LATER)

# Many more examples, random ones: run it when you have changed a rule, the store or the machine.
fuzz: $(INSTALLED)
	HYPOTHESIS_PROFILE=fuzz WEAVE_TIMES=70 ORACLE_TIMES=200 $(BIN)/python -m pytest -q tests/properties tests/races tests/rules
	CLUSTER_TIMES=20 EXPLORE_TIMES=10 $(BIN)/python -m pytest -q tests/simulation

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH)
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/rules.py
	$(BIN)/python benchmarks/flows.py

# Durable stores, beside a bare loop, APScheduler and huey: some 20 minutes, on the disk of this folder.
bench-durable: $(BENCH)
	$(BIN)/python benchmarks/durable.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@command -v $(PYTHON) >/dev/null || { \
	    echo "make: $(PYTHON) is not there; tickless needs Python 3.11 or later: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1), and tickless needs 3.11 or later: make PYTHON=python3.12, say" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(INSTALLED): pyproject.toml $(MADE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(BENCH): pyproject.toml $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@
