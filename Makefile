# Two commands do the main jobs: `make run` and `make test`. Both build the environment in .venv first, once.
#
# Variables:  PYTHON  the interpreter .venv is built from        make setup PYTHON=/path/to/python3.12
#             ARGS    more arguments for the command behind      make run ARGS="--dry-run"    make test ARGS="-k penalty"

PYTHON ?= python3
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup run smoke test test-slurm lint bench regress ui publish lock clean distclean supported-python

requires_python := $(shell sed -n 's/^requires-python = "\(.*\)"/\1/p' pyproject.toml)
lock_sha256 := $(shell { sha256sum requirements.lock 2>/dev/null || shasum -a 256 requirements.lock; } | cut -c 1-64)
# The last file a build writes, named after what was installed: a half-built or outdated .venv does not have it.
complete := .venv/complete-$(lock_sha256)
# One build at a time. Where flock is missing (macOS), two builds at once are the user's to avoid.
has_flock := $(shell command -v flock)
# Every tool runs as a module of .venv's own python, and the jobs that Snakemake starts find that python first.
# Unlike the scripts in .venv/bin this goes on working after the folder was moved.
python := PATH="$(CURDIR)/.venv/bin:$$PATH" python

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

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

setup:  ## build .venv from requirements.lock; does nothing when it is up to date
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
	@touch $@

run: setup  ## run the paper study: snakemake --cores all
	$(python) -m snakemake --cores all $(ARGS)

smoke: setup  ## run the smoke study, a small version of everything
	$(python) -m snakemake --cores all --configfile workflows/studies/smoke.yaml $(ARGS)

test: lint  ## lint, then run all tests
	$(python) -m pytest -n 2 $(ARGS)

test-slurm: setup  ## run the smoke study on a Slurm of one node; as root, with slurm-wlm and munge installed
	$(python) -m pytest tests/slurm $(ARGS)

lint: setup  ## check style, types and the workflow's format
	$(python) -m ruff check
	$(python) -m ruff format --check
	$(python) -m mypy
	$(if $(wildcard Snakefile workflows/rules),$(python) -m snakefmt --check $(wildcard Snakefile workflows/rules))

# Timed by processor time, one thread, one process: what else runs on the machine falls on both sides of a ratio.
bench: setup  ## time every sampler against its bare work, other libraries and more data; ARGS="-k 'not torch'" is quick
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 TORCHINDUCTOR_CACHE_DIR="$(CURDIR)/results/.cache/torch" \
	$(python) -m pytest tests/benchmarks/bench_*.py -o "python_functions=bench_*" -p no:xdist -W default -q \
	--benchmark-timer=time.process_time --benchmark-json=results/benchmarks.json --benchmark-quiet $(ARGS)
	$(python) -m tests.benchmarks.summary results/benchmarks.json

regress: setup  ## fail if a sampler became wrong or slow; ARGS="--tiers exact", ARGS="--base main", ARGS="--help"
	$(python) -m tests.benchmarks.regress $(ARGS)

# MLFLOW_TRACKING_URI selects another store, as it does for a study; a database's password is not shown.
ui: setup  ## show the tracked runs in MLflow's pages, on this machine only
	@case "$$MLFLOW_TRACKING_URI" in \
	http*) echo "the server at MLFLOW_TRACKING_URI has the pages: open that address"; exit 0 ;; \
	"") test -e results/mlflow.db || { echo "no runs are tracked yet: results/mlflow.db does not exist; run a study first, with make smoke or make run" >&2; exit 1; } ;; \
	esac; \
	echo "choose a study, then 'Means over seeds' in the menu Views; Ctrl-C ends it"; \
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_BACKEND_STORE_URI="$${MLFLOW_TRACKING_URI:-sqlite:///results/mlflow.db}" \
	$(python) -m mlflow ui --host 127.0.0.1 --workers 1 $(ARGS)

publish: setup  ## keep the finished paper study's report and MLflow's pages with the code, and show them in the README; needs chromium
	$(python) -m reports.publish --study paper $(ARGS)
	$(python) -m tests.mlflow_pages results/mlflow.db paper reports/published/paper
	$(python) -m workflows.readme

# A scratch environment gets the dependencies of pyproject.toml in their newest versions, and what came is written down.
# Use the oldest supported Python: its versions suit the newer ones too, the reverse is not so.
# Left out: local version tags such as +cpu, and the CUDA libraries, which torch for Linux pins itself.
lock: supported-python  ## renew requirements.lock from pyproject.toml, with the newest versions
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch" requirements.lock.new' EXIT && trap 'exit 1' INT TERM && \
	"$(PYTHON)" -m venv "$$scratch" && \
	"$$scratch/bin/python" -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")' > "$$scratch/direct" && \
	"$$scratch/bin/python" -m pip install -r "$$scratch/direct" && \
	"$$scratch/bin/python" -m pip freeze --all --exclude pip > "$$scratch/frozen" && \
	{ echo "# Exact versions of all packages. Made by 'make lock', which installs the dependencies of pyproject.toml into an"; \
	  echo "# empty environment and writes down what came. To change a version, edit pyproject.toml and run it again."; \
	  sed 's/+.*//' "$$scratch/frozen" | grep -viE '^(nvidia|cuda|triton)' | LC_ALL=C sort -f; } > requirements.lock.new && \
	mv requirements.lock.new requirements.lock

clean:  ## remove generated results and caches; data/, .venv and results/baselines stay
	find results -mindepth 1 -maxdepth 1 ! -name README.md ! -name baselines -exec rm -rf {} +
	find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks

distclean: clean  ## also remove .venv and the downloaded data in data/
	rm -rf .venv data
