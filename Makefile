# `make demo` and `make test` do everything on a fresh machine; both start from `make setup`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := demo,vision,tables,backbones,onnx,dev
# The suite's own processes share two cores; more threads in each only get in each other's way.
export OMP_NUM_THREADS ?= 1
# Where a test asks for two, they sleep until there is work; they would spin, which took as long as the work itself.
export OMP_WAIT_POLICY ?= PASSIVE
# Some virtual machines name matrix units (AMX) that they do not let programs use: bfloat16 would end in an illegal
# instruction. Nothing else is computed by them.
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16
# Tests are compiled with their assertions taken apart, which takes a third of collecting them: once is enough.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test setup lock setup-locked audit lint types unit fuzz crash soak bench format clean

demo: setup
	$(BIN)/shiftcal demo --out demo-results

test: setup lint types unit

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $(READY)

# What the registries give today, with hashes; `setup-locked` then installs that and nothing else (SECURITY.md).
lock:
	$(PYTHON) .ci/lock.py requirements.lock torch '.[$(EXTRAS)]' 'setuptools>=77'

setup-locked: requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(READY)

# Known vulnerabilities of the pinned versions; needs the network, and is no part of `make test`.
audit:
	$(PYTHON) -m pip_audit --requirement constraints.txt

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/pytest -n 2 --dist loadfile

# A failing case prints how to run it again; CASES=100 for a quick look.
CASES ?= 10000
fuzz: setup
	FUZZ_CASES=$(CASES) $(BIN)/pytest -n 2 tests/fuzz tests/functional/test_properties.py tests/metrics/test_properties.py

# All crash points, which takes a quarter of an hour; the tests try a few.
crash: setup
	$(BIN)/python benchmarks/crash_points.py

# Half an hour in one process: memory, open files and threads must stay flat. MINUTES=2 for a quick look.
MINUTES ?= 30
soak: setup
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

# Speed and memory, into docs/performance.md; TOPICS="metrics prediction" for some. What we are compared with is kept
# apart from what we need.
TOPICS ?=
PEERS := $(VENV)/peers
bench: setup $(PEERS)
	PYTHONPATH=$(PEERS) $(BIN)/python -m benchmarks.performance.run $(TOPICS)

$(PEERS):
	$(BIN)/python -m pip install --quiet --no-deps --target $(PEERS) torchmetrics==1.9.0 torch-uncertainty==0.13.0 \
		lightning-utilities lightning pytorch-lightning einops jsonargparse rich seaborn \
		pytorch-adapt==0.0.83 pytorch-metric-learning skada==0.6.0 skorch tabulate POT

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo-results build *.egg-info
