# Every target sets up what it needs: a virtual environment in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: bench clean demo docs faults fuzz growth lint lists memory oldest soundness sweep test

demo: .venv/.ready
	$(BIN)/rightreasons demo --out demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_prose.py

fuzz: .venv/.ready
	OMP_NUM_THREADS=1 RIGHTREASONS_FUZZ_CASES=$(or $(CASES),500) $(BIN)/python -m pytest tests/fuzz

oldest: .venv/.ready
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --constraint constraints.txt ".[dev]"
	.venv-oldest/bin/python -m pip install --quiet --no-deps --requirement oldest.txt \
	  pydantic-core==2.18.1 click==8.1.7
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest tests/core tests/run tests/cli

bench: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/step_time.py --out benchmarks/results/step_time.json

# Kills commands, ends them and fills their disks; takes about five minutes on one processor.
faults: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults --out benchmarks/results/faults.json
	$(BIN)/python benchmarks/write_tables.py docs/reference/promises.md

# Kills a Ray node and a driver in sweeps of 60 cells; takes some minutes on two free cores.
sweep: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/sweep.py --out benchmarks/results/sweep.json

# Runs training, every metric, audit and certify on N, 2 N and 4 N samples; takes some minutes.
growth: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/growth.py --out benchmarks/results/growth.json
	$(BIN)/python benchmarks/write_tables.py docs/reference/growth.md

# Trains 200 steps of every recipe without the garbage collector; takes some minutes.
memory: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/step_memory.py --out benchmarks/results/step_memory.json
	$(BIN)/python benchmarks/write_tables.py docs/reference/promises.md

# Attacks the bounds of 5,200 random nets; takes about ten minutes on two processors.
soundness: .venv/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soundness --out benchmarks/results/soundness.json
	$(BIN)/python benchmarks/write_tables.py docs/reference/promises.md

lists: .venv/.ready
	$(BIN)/python tools/write_lists.py

docs: .venv/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv build dist site demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) hatchling
	$(INSTALL) --no-build-isolation --editable ".[dev]"
	touch $@
