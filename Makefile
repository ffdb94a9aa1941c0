# make demo, make test and make quick do all the set-up; each creates .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Neighbouring tests share programs and fixtures: each worker takes half of them, the one that is done first takes more.
WORKERS := -n 2 --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test long quick check docs bench torture browser lerobot lerobot-for-ci wheel-test clean

demo: $(VENV)/.core
	$(BIN)/batchwright train CartPole-v1 --show-plan

# Tests of LeRobot run where make lerobot has been run. CI, which sets CI=true, runs it first: about a minute.
test: check browser $(if $(CI),lerobot-for-ci)
	@[ -e $(LEROBOT_VENV)/.lerobot ] || echo "no $(LEROBOT_VENV) (make lerobot): tests in LeRobot's environment are left out"
	$(BIN)/pytest $(WORKERS)

# make test, and the claims that it holds for one engine, algorithm or format, for all of them (tests/long.txt).
long: check browser
	HYPOTHESIS_PROFILE=long $(BIN)/pytest $(WORKERS) --long

# For work in progress, in under two minutes: make check, and the tests that take under a second each. The others are
# named in tests/slow.txt; what takes longer than a second here is listed at the end and belongs there.
quick: check
	$(BIN)/pytest $(WORKERS) -m "not slow" --durations 5 --durations-min 1

# The tests of the page run in Debian's Chromium; without it, and without the right to install it, they are left out.
browser:
	@command -v chromium >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 \
	|| { apt-get update -qq >/dev/null 2>&1 && apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1; }; } } \
	|| echo "no chromium, and it cannot be installed here: tests in a browser are left out"

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Ours alone; side by side with the peers: benchmarks/README.md.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/startup.py --json benchmarks/results/startup.json
	$(BIN)/python benchmarks/limit.py --json benchmarks/results/limit.json
	$(BIN)/python benchmarks/learning.py --json benchmarks/results/learning.json

# Attacks on what the project promises, a few minutes; longer: make torture TORTURE="--kills 500 --damages 2000 --calls 10000".
TORTURE ?=
torture: $(VENV)/.dev
	$(BIN)/python benchmarks/torture --json benchmarks/results/torture.json $(TORTURE)

# The wheel in a fresh environment outside this folder, with the jobs of a first hour; a few minutes.
wheel-test:
	$(PYTHON) tests/wheel_outside.py

# LeRobot wants other versions of NumPy and PyTorch than we do: an environment of its own, about 2 GB. 0.4.4 is the last
# version for Python 3.11. LEROBOT_TORCH names another build of PyTorch, such as one for CUDA.
LEROBOT_VENV := .venv-lerobot
LEROBOT_TORCH ?= torch==2.13.0
LEROBOT_PIP := $(LEROBOT_VENV)/bin/python -m pip --disable-pip-version-check install --quiet
lerobot: $(LEROBOT_VENV)/.lerobot

# Where its packages cannot be had, or come too slowly, the other tests run all the same.
lerobot-for-ci:
	@timeout 240 $(MAKE) --no-print-directory lerobot || echo "LeRobot's environment could not be created in 240 s"

$(LEROBOT_VENV)/.lerobot: constraints-lerobot.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] in ((3, 10), (3, 11)) else "LeRobot 0.4.4 needs Python 3.10 or 3.11: make lerobot PYTHON=python3.11")'
	$(PYTHON) -m venv $(LEROBOT_VENV)
	$(LEROBOT_PIP) -c constraints-lerobot.txt '$(LEROBOT_TORCH)' accelerate av datasets deepdiff diffusers draccus einops \
	  gymnasium huggingface-hub imageio jsonlines num2words numpy packaging pillow pyserial safetensors termcolor transformers
	$(LEROBOT_PIP) --no-deps torchvision==0.25.0 lerobot==0.4.4
	touch $@

clean:
	rm -rf $(VENV) $(LEROBOT_VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Batchwright needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[dev,envpool,classic,mujoco,tensorboard,wandb,video,recorded,recorded-video,agents,docs]'
	touch $(VENV)/.core $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[docs]'
	touch $@
