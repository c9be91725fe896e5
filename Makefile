# Two commands do the main jobs: `make run` and `make test`. Both build the environment in .venv first, once.
#
# Variables:  PYTHON  the interpreter .venv is built from        make setup PYTHON=/path/to/python3.12
#             ARGS    more arguments for the command behind      make run ARGS="--dry-run"    make test ARGS="-k penalty"
#             STUDY   another study, checked before it is run    make run STUDY=my_study.yaml

PYTHON ?= python3
ARGS ?=
export STUDY ?=

.DEFAULT_GOAL := help
.PHONY: help setup run smoke test test-slow test-slurm lint docs bench profile-study regress golden references ui publish lock clean distclean supported-python

requires_python := $(shell sed -n 's/^requires-python = "\(.*\)"/\1/p' pyproject.toml)
lock_sha256 := $(shell { sha256sum requirements.lock 2>/dev/null || shasum -a 256 requirements.lock; } | cut -c 1-64)
# The last file a build writes, named after what was installed: a half-built or outdated .venv does not have it.
complete := .venv/complete-$(lock_sha256)
# One build at a time. Where flock is missing (macOS), two builds at once are the user's to avoid.
has_flock := $(shell command -v flock)
# Every tool runs as a module of .venv's own python. Unlike the scripts in .venv/bin this goes on working after the folder
# was moved; and no command has the folder's name in it, which may be anything.
python := .venv/bin/python

# Where the home folder cannot be written to, as in many containers, caches go beside the results.
ifneq ($(shell cache="$${XDG_CACHE_HOME:-$$HOME/.cache}"; mkdir -p "$$cache" 2>/dev/null && test -w "$$cache" && echo yes),yes)
export XDG_CACHE_HOME := $(CURDIR)/results/.cache/home
export MPLCONFIGDIR := $(CURDIR)/results/.cache/home/matplotlib
endif

export MLFLOW_DISABLE_TELEMETRY := true
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Runs under any Python, however old.
define check_python
import re, sys
lowest, above = [tuple(map(int, bound.split("."))) for bound in re.findall("[0-9.]+", "$(requires_python)")]
if not lowest <= sys.version_info[:2] < above:
    sys.exit("$(PYTHON) is Python %d.%d; $(python_needed)" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("$(PYTHON) cannot build environments: its venv module is missing (on Debian and Ubuntu: apt install python3-venv)")
endef
export check_python
python_needed = Python $(requires_python) is needed. Name one: make setup PYTHON=/path/to/python3.12

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

setup:  ## build .venv from requirements.lock, unless it is up to date
	@# An upgrade of the system's Python can leave .venv/bin/python pointing nowhere.
	@test -x .venv/bin/python || rm -f $(complete)
	@$(if $(has_flock),test -e $(complete) || flock -n Makefile true || echo "waiting for another make that is building .venv")
	@test -e $(complete) || $(if $(has_flock),flock Makefile) $(MAKE) --no-print-directory $(complete)
	@$(if $(filter setup,$(MAKECMDGOALS)),echo ".venv is up to date with requirements.lock ($$(.venv/bin/python --version))")

supported-python:
	@"$(PYTHON)" -c '' 2>/dev/null || { echo "no working Python found as '$(PYTHON)'; $(python_needed)" >&2; exit 1; }
	@"$(PYTHON)" -c "$$check_python"

$(complete): | supported-python
	@echo "building .venv from requirements.lock: once, some minutes"
	@rm -rf .venv
	@"$(PYTHON)" -m venv .venv
	@$(python) -m pip install -r requirements.lock || { echo "the packages of requirements.lock could not be installed, pip says why above; without a network, point pip to a local mirror; then again: make setup" >&2; exit 1; }
	@$(python) -m pip install --quiet --no-deps --no-build-isolation --editable . || { echo "the command pbnn-bench could not be installed, pip says why above; then again: make setup" >&2; exit 1; }
	@touch $@

# Checked by our own reading first: Snakemake answers a file that it cannot read with a traceback.
run: setup  ## run the paper study, or another one: STUDY=my_study.yaml
	$(if $(value STUDY),@$(python) -m workflows.study "$$STUDY")
	$(python) -m snakemake --cores all $(if $(value STUDY),--configfile "$$STUDY") $(ARGS)

smoke: setup  ## run the smoke study: every stage, on small tasks, in one or two minutes
	$(python) -m snakemake --cores all --configfile workflows/studies/smoke.yaml $(ARGS)

test: lint  ## lint, then run all tests except the slow ones
	$(python) -m pytest -n 2 --dist loadgroup -m "not slow" $(ARGS)

test-slow: setup  ## run the slow tests: long chains, and whole studies, killed, damaged, tracked and shown in a browser
	$(python) -m pytest -n 2 --dist loadgroup -m slow $(ARGS)

test-slurm: setup  ## run the smoke study on a Slurm of one node; as root, with slurm-wlm and munge installed
	$(python) -m pytest tests/slurm $(ARGS)

lint: setup  ## check style, types and the workflow's format
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy
	$(python) -m snakefmt --check Snakefile workflows/rules

# MkDocs announces its successor at every build; whether to follow it is decided here, not by each reader of a log.
docs: setup  ## build the documentation, with the published reports, into results/site; no network needed
	NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build $(ARGS)
	@echo "the documentation is in results/site: python3 -m http.server --directory results/site"

# Timed by processor time, one thread, one process: what else runs on the machine falls on both sides of a ratio.
bench: setup  ## time every sampler, also against other libraries; ARGS=--quick only tells whether all of it runs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 TORCHINDUCTOR_CACHE_DIR="$$PWD/results/.cache/torch" \
	$(python) -m pytest benchmarks/bench.py -o python_functions=bench_* -p no:xdist -W default -q --benchmark-quiet \
	--benchmark-timer=time.process_time --benchmark-json=results/benchmarks.json $(ARGS)
	$(python) -m benchmarks.bench

profile-study: setup  ## show where the processor time of the paper study went; ARGS=results/smoke for another
	$(python) -m records.usage $(or $(ARGS),results/paper)

regress: setup  ## fail if a sampler became wrong or slow; ARGS="--help" lists the options
	$(python) -m benchmarks.regress $(ARGS)

# Before and after a refactoring. A change of numbers that is meant is recorded: ARGS="--record --only smoke".
golden: setup  ## check that no number changed: draws of every method, the smoke study, published verdicts
	$(python) -m tests.golden $(ARGS)

# One core, and hours; a reference that is there stays, so an interrupted call goes on.
references: setup  ## make the references of whole networks that are missing; ARGS="--tasks wine --splits 5 --weights N 100"
	OMP_NUM_THREADS=1 $(python) -m records.network_references $(ARGS)

# MLFLOW_TRACKING_URI selects another store, as it does for a study; a database's password is not shown.
ui: setup  ## serve the runs of all studies in MLflow, to this machine only
	@$(python) -m pbnn_bench ui $(ARGS)

# The study by its name or its file. Pictures of the report's first screen (in light, in dark and on a phone) and of MLflow's
# pages are kept of the paper study alone; the documentation shows them.
published := $(or $(basename $(notdir $(value STUDY))),paper)
publish: setup  ## publish the report of the paper study, or STUDY=name, with the code; needs chromium
	$(python) -m reports.publish --study $(published) $(ARGS)
	$(if $(filter paper,$(published)),$(python) -m tests.screenshots reports/published/paper/report.html reports/published/paper --only 1400-light 1400-dark 390-light)
	$(if $(filter paper,$(published)),$(python) -m tests.mlflow_pages results/mlflow.db paper reports/published/paper)
	$(python) -m docs._build.readme

# A scratch environment gets the dependencies of pyproject.toml in their newest versions, and what came is written down.
# Use the oldest supported Python: its versions suit the newer ones too, the reverse is not so.
# Left out: local version tags such as +cpu, and the CUDA libraries, which torch for Linux pins itself.
lock: supported-python  ## write requirements.lock again, with the newest versions that pyproject.toml allows
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch" requirements.lock.new' EXIT && trap 'exit 1' INT TERM && \
	"$(PYTHON)" -m venv "$$scratch" && \
	"$$scratch/bin/python" -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")' > "$$scratch/direct" && \
	"$$scratch/bin/python" -m pip install -r "$$scratch/direct" && \
	"$$scratch/bin/python" -m pip freeze --all --exclude pip > "$$scratch/frozen" && \
	{ echo "# Exact versions of all packages. Made by 'make lock', which installs the dependencies of pyproject.toml into an"; \
	  echo "# empty environment and writes down what came. To change a version, edit pyproject.toml and run it again."; \
	  sed 's/+.*//' "$$scratch/frozen" | grep -viE '^(nvidia|cuda|triton)' | LC_ALL=C sort -f; } > requirements.lock.new && \
	mv requirements.lock.new requirements.lock

clean:  ## remove results and caches, but not data/, .venv, results/baselines and what studies share
	find results -mindepth 1 -maxdepth 1 ! -name README.md ! -name baselines ! -name .shared -exec rm -rf {} +
	find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks

distclean: clean  ## also remove .venv, data/, and the problems and references that studies share
	rm -rf .venv data results/.shared
