# make run   open the dashboard with the recorded history; meanwhile build and measure the last few commits
# make test  set up, run every check and test
# make check lint, types, and the tests that start no other program and write no file
# They need only Python >= 3.11, a C++ compiler, make and git; and can be interrupted and run again.

PYTHON ?= python3
SHELL := bash
.SHELLFLAGS := -o pipefail -c
COMMITS ?= 3
PORT ?= 8321
# Processes that tests are shared out to: one where there is a GPU, which measuring tests want to themselves, else one a
# core. Tests that compare CPU times run after the others; each process takes a file at a time.
TEST_WORKERS ?= $(if $(HAS_GPU),1,$(shell nproc))
VENV := .venv
BIN := $(VENV)/bin
ASV := $(BIN)/python -m asv
# Twice quiet: of what a machine's own pip configuration is warned about, nothing is ours. Errors are printed.
INSTALL := $(BIN)/python -m pip install --quiet --quiet
# asv builds commits in an environment of its own; ninja and the pip-installed nvcc are found through here.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Python keeps compiled modules, also where a container forbids it: else each pytest compiles its plugins again.
export PYTHONDONTWRITEBYTECODE :=

# With an NVIDIA driver PyTorch's CUDA build, elsewhere the CPU build where its index answers.
# 2.13.0 everywhere, so that a baseline's change is never a silent PyTorch upgrade, and the Triton that its CUDA build
# requires: the twins are interpreted and compiled, and compiled code is read, the same way on every machine.
HAS_GPU := $(shell nvidia-smi -L >/dev/null 2>&1 && echo yes)
TORCH := torch==2.13.0 triton==3.7.1
TORCH_INDEX := $(if $(HAS_GPU),,$$($(PYTHON) kernels/building/torch_index.py))
comma := ,
EXTRAS := kernels,bench$(if $(HAS_GPU),$(comma)gpu)
# What the kernels are compiled for: this machine's GPUs if empty, or a list, `all` or `none` (kernels/README.md).
export WARPWATCH_CUDA_ARCHS
# The CUDA compiler from pip, where one is needed and no toolkit is installed.
WANTS_NVCC := $(filter-out none,$(or $(WARPWATCH_CUDA_ARCHS),$(HAS_GPU)))
NVCC_FROM_PIP := $(if $(WANTS_NVCC),$(if $(or $(CUDA_HOME),$(shell command -v nvcc)),,$(VENV)/.nvcc))

# Each step wants the one before it, also under make -j.
.NOTPARALLEL:
.PHONY: run test check lint setup build measure import dashboard clean all-architectures locked

# The dashboard needs no PyTorch: it serves what is recorded while ci/make_run has the rest installed, compiled and
# measured. `exec`, so that a signal to make's child reaches it.
run:
	@began=$$(date +%s) && $(MAKE) --no-print-directory $(VENV)/.created && created=$$(date +%s) \
		&& $(MAKE) --no-print-directory $(VENV)/.dashboard && installed=$$(date +%s) \
		&& $(MAKE) --no-print-directory import && exec $(BIN)/python -m warpwatch.ci.make_run \
			--set-up $$began $$created $$installed --commits $(COMMITS) --port $(PORT) --open -- $(MAKE) --no-print-directory

# --- set-up -------------------------------------------------------------------------------------------------
$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "warpwatch needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# What the dashboard needs. pip builds it in an environment without PyTorch, so it compiles no kernels: that is `build`.
$(VENV)/.dashboard: $(VENV)/.created setup.py
	$(INSTALL) --editable .
	touch $@

$(VENV)/.torch: $(VENV)/.created Makefile
	$(INSTALL) "setuptools>=77" wheel ninja $(TORCH) $(TORCH_INDEX)
	touch $@

$(VENV)/.nvcc: $(VENV)/.created kernels/building/cuda_from_pip.txt
	$(INSTALL) -r kernels/building/cuda_from_pip.txt
	touch $@

# One file for each set of extras, so that `make run` after `make test` installs nothing twice.
$(VENV)/.run: $(VENV)/.torch setup.py perf_suite/warpbench/pyproject.toml
	$(INSTALL) --editable ".[$(EXTRAS)]" --editable perf_suite/warpbench
	touch $@ $(VENV)/.dashboard

$(VENV)/.test: $(VENV)/.torch setup.py perf_suite/warpbench/pyproject.toml
	$(INSTALL) --editable ".[$(EXTRAS),test]" --editable perf_suite/warpbench
	touch $@ $(VENV)/.run $(VENV)/.dashboard

setup: $(VENV)/.run $(NVCC_FROM_PIP)

# Compiles what changed, for this machine's GPUs; for the CPU alone where it has none.
build: setup
	$(BIN)/python setup.py --quiet build_ext --inplace

# For the five architectures whose compiled code is tracked.
all-architectures:
	$(MAKE) --no-print-directory build WARPWATCH_CUDA_ARCHS=all

# --- measure, import, look ------------------------------------------------------------------------------------
# The newest commits that changed what is measured; those already measured here are skipped. Of asv's tables the rows
# of what this machine lacks (n/a) are left out. asv ends with 2 when a benchmark failed: that is recorded and shown on
# the dashboard, so the rest goes on.
measure: setup
	$(ASV) machine --yes > /dev/null
	mkdir -p .asv
	git rev-list --max-count=$(COMMITS) HEAD -- kernels setup.py ':!*.md' > .asv/commits.txt || true
	$(ASV) run --skip-existing --record-samples HASHFILE:.asv/commits.txt | grep --line-buffered -v ' n/a *$$' \
		|| test $$? -eq 2

# First what the repository ships of other machines: our history, with the thresholds of warpwatch.toml, and that of
# Liger-Kernel's releases. Then what this machine has measured. The import ends with 3 if it set a file aside, such as one
# that an interrupted asv left; the rest is in. The policy ends with 1 if the thresholds of a newer commit are kept already.
import: $(VENV)/.dashboard
	$(BIN)/warpwatch import perf_suite/results --project warpwatch --repository .
	$(BIN)/warpwatch policy keep warpwatch.toml --project warpwatch > /dev/null || test $$? -eq 1
	$(BIN)/python examples/liger/history.py > /dev/null
	$(BIN)/warpwatch import examples/liger/results --project liger-kernel --repository examples/liger/.asv/history
	test ! -f .asv/results/benchmarks.json || $(BIN)/warpwatch import . --project warpwatch || test $$? -eq 3

dashboard: $(VENV)/.dashboard
	$(BIN)/warpwatch serve --port $(PORT) --open

# --- check ----------------------------------------------------------------------------------------------------
lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/typing && mkdir -p build/typing/warpwatch
	ln -s ../../../kernels ../../../dashboard ../../../ci build/typing/warpwatch/
	MYPYPATH=build/typing $(BIN)/mypy --namespace-packages -p warpwatch.kernels -p warpwatch.dashboard -p warpwatch.ci -p perf_suite -p warpbench -p tools

# Without the kernels' tests: they need the compiled extension.
check: lint
	$(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadfile -m "not outside and not timing" \
		tests/house tests/dashboard tests/ci tests/perf_suite

test: $(VENV)/.test build lint
ifeq ($(TEST_WORKERS),1)
	$(BIN)/python -m pytest
else
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m "not timing"
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m timing \
		$$(grep -rl --include='*.py' mark.timing tests)  # to collect all takes half a minute
endif

clean:
	rm -rf $(VENV) .asv build .warpwatch kernels/*.so kernels/_C.build.json

# --- what the workflows that may write install, renewed ------------------------------------------------------
LOCKED := .github/actions/warpwatch/locked.txt
locked:
	(sed '/^[^#]/,$$d' $(LOCKED); \
	 $(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	 | uv pip compile setup.py - --extra alerts --extra postgresql --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	   --no-annotate) > $(LOCKED).new
	mv $(LOCKED).new $(LOCKED)
