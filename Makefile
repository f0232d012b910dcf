# Every command of this project, one line each; `make` alone lists them. Each makes the environment first if it is missing.
#
# Variables:  PYTHON=python3.12   the interpreter `make env` starts from (3.11, 3.12 or 3.13)
#             PRESET=smoke DEVICE=host ONLY=03_network     handed to `rnnopt reproduce`
#             PEERS=0|1           tests that compare with PyTorch: 0 leaves it out, 1 insists on it, whatever its size;
#                                 without either, it is installed where a CPU build can be had
#             CARRIED=folder      for `make gpu-check` without a network: what `make gpu-carry` downloaded
#             ARGS=...            handed on to pytest, ruff, JupyterLab or the check of a GPU
# Paths are relative and Python's tools are called as modules, so the folder may have spaces or any letters in its name.

PYTHON ?= python3
PEERS ?= auto
ARGS ?=
PY := .venv/bin/python
PIP := $(PY) -m pip --quiet --quiet --no-input --disable-pip-version-check install --only-binary :all:
TORCH := $(shell sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements-peers.lock)
UV := uv==0.13.9
# What promises the same of every device that compiles kernels, and what only CUDA promises.
ON_CUDA := tests/devices/cuda/test_cuda_gpu.py tests/devices/cuda/test_standin.py tests/schedule tests/cells tests/test_network.py \
  tests/test_training_network.py tests/test_golden_sums.py tests/test_measure.py tests/test_measure_training.py tests/training tests/time_parallel/test_solved_network.py
LOCK := $(PY) -m uv pip compile --quiet --no-header --no-emit-index-url --only-binary :all: --python-version 3.11

# The stamp holds the folder's path. An environment that was half made, was copied from elsewhere, has lost its Python or is of
# another version than the PYTHON asked for is not whole, and is made again from nothing.
WHOLE := $(shell [ "$$(cat .venv/ready 2>/dev/null)" = "$$(pwd)" ] && version=$$($(PY) -V 2>/dev/null) && \
  $(if $(filter file,$(origin PYTHON)),,[ "$$version" = "$$("$(PYTHON)" -V 2>/dev/null)" ] &&) echo yes)
ifneq ($(WHOLE),yes)
.PHONY: .venv/ready
endif

.PHONY: help env reproduce smoke paper lab kernel test peers pycuda-standin test-standin test-mpi kernels-check gpu-check gpu-carry lint lock clean
.DEFAULT_GOAL := help

help: ## list these commands
	@awk -F ':[^#]*## ' '/^[a-z-]+:[^#]*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

env: .venv/ready ## make the environment in .venv, as locked
	@echo "env: ready in .venv"

reproduce: .venv/ready ## regenerate every figure and table on this machine
	@$(PY) -m rnnopt reproduce $(if $(PRESET),--preset "$(PRESET)") $(if $(DEVICE),--device "$(DEVICE)") $(if $(ONLY),--only "$(ONLY)")

smoke: .venv/ready ## the same at toy size, to see that everything runs
	@$(PY) -m rnnopt reproduce --preset smoke $(if $(DEVICE),--device "$(DEVICE)") $(if $(ONLY),--only "$(ONLY)")

paper: .venv/ready ## typeset the paper from what was regenerated
	@$(PY) -m rnnopt paper

lab: .venv/ready ## open the notebooks in JupyterLab
	@$(PY) -m jupyterlab notebooks $(ARGS)

kernel: .venv/ready ## offer this environment, as "Python (rnnopt)", to a JupyterLab installed elsewhere
	@$(PY) -m ipykernel install --user --name rnnopt --display-name "Python (rnnopt)"

test: .venv/ready peers ## run the tests
	@$(PY) -m pytest $(ARGS)

pycuda-standin: .venv/ready ## PyCUDA without a GPU: build it, and let device 'cuda' be a strict driver on host memory
	@$(PY) rnnopt/devices/cuda/build_pycuda.py
	@$(PY) -m rnnopt.devices.cuda.standin

test-standin: pycuda-standin ## run the tests that compile kernels on PyCUDA over the stand-in driver
	@$(PY) -m pytest --on standin $(or $(ARGS),$(ON_CUDA))

test-mpi: .venv/ready ## run the tests that start several processes (installs mpi4py, and an MPI for this machine)
	@$(PIP) "mpi4py>=4.1" "mpich>=4.3"
	@$(PY) -m pytest -m mpi $(ARGS) tests/time_parallel

kernels-check: .venv/ready ## compile every kernel with nvcc for each supported architecture (needs nvcc, no GPU)
	@$(PY) -m rnnopt.kernels.nvcc_check

gpu-check: ## on a machine with an NVIDIA GPU: tests, measurements and peers, in 8 minutes; leaves build/gpu-check
	@"$(PYTHON)" rnnopt/gpu_check/bootstrap.py $(if $(CARRIED),--carried "$(CARRIED)") -- $(ARGS)

gpu-carry: ## download what `make gpu-check` needs where there is no network, to carry there
	@"$(PYTHON)" rnnopt/gpu_check/bootstrap.py --carry build/carried

lint: .venv/ready ## check style
	@$(PY) -m ruff check $(ARGS) .

lock: .venv/ready ## resolve the lock files anew from pyproject.toml
	@$(PIP) "$(UV)"
	@$(LOCK) pyproject.toml --extra data --extra paper --extra test --extra lint --universal --fork-strategy fewest --generate-hashes --upgrade -o requirements.lock
	@sed -n 's/^peers = \["\(.*\)"\]/\1/p' pyproject.toml | MACOSX_DEPLOYMENT_TARGET=14.0 $(LOCK) - --python-platform macos --constraints requirements.lock --upgrade -o requirements-peers.lock

clean: ## delete the environment and everything that was generated
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis

# The stamp goes away before anything changes and comes back last, so a kill at any moment is repaired by the next call.
# The relative path in the .pth file keeps the folder's own name out of it: Python reads that file in the locale's encoding.
.venv/ready: requirements.lock requirements-data.lock pyproject.toml
	@[ "$(WHOLE)" = yes ] || "$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v[:2] < (3, 14) else \
	  "rnnopt needs Python 3.11, 3.12 or 3.13; $(PYTHON) is %d.%d. Name another: make env PYTHON=python3.12" % v[:2])'
	@rm -f .venv/ready
	@[ "$(WHOLE)" = yes ] || { echo "env: making .venv"; "$(PYTHON)" -m venv --clear .venv; } || \
	  { echo "env: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "env: installing the locked packages (some minutes the first time)"
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --require-hashes --no-deps -r requirements-data.lock
	@echo "env: installing rnnopt itself"
	@$(PIP) --no-deps --no-build-isolation -e .
	@cd .venv/lib/python*/site-packages && echo ../../../.. > _rnnopt.pth
	@pwd > .venv/ready

# On Linux the build of PyTorch that pip finds by itself carries CUDA, gigabytes of it; the one for macOS does not.
peers: .venv/ready
	@[ "$(PEERS)" = 0 ] || $(PY) -c 'from importlib.metadata import version as v; assert v("torch").split("+")[0] == "$(TORCH)"[7:]' 2>/dev/null || \
	if [ "$(PEERS)" = 1 ]; then echo "peers: installing $(TORCH)"; $(PIP) -r requirements-peers.lock; else \
	  [ "$$(uname -s)" = Linux ] && build="$(TORCH)+cpu" || build="$(TORCH)"; echo "peers: installing $$build"; \
	  $(PIP) "$$build" -r requirements-peers.lock 2>/dev/null || echo "peers: no CPU build $$build to be had here, so the comparisons" \
	    "with PyTorch will be skipped; point PIP_FIND_LINKS at one, or take whatever build there is: make test PEERS=1"; \
	fi
