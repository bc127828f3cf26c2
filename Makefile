# `make demo` and `make test` need make and Python 3.11 or newer, nothing else; both make their own environment.
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
WORKERS ?= auto

.PHONY: help demo test lint warm docs benchmarks faults fuzz matrix sbom audit lock wheelhouse clean
MINUTES ?= 10
.DELETE_ON_ERROR:

help:
	@echo "make demo     the whole job on the sample cohorts, reports under demo/"
	@echo "make test     formatting, types and all tests"
	@echo "make lint     formatting and types only"
	@echo "make docs     write again what the code knows, and build the site of it: build/site/index.html"
	@echo "make benchmarks   every command of docs/benchmarks.md, answers in build/benchmarks (days); ONLY=gates for some"
	@echo "make faults   the attacks of docs/reliability.md at their full number (hours)"
	@echo "make fuzz     generated input for MINUTES=10"
	@echo "make matrix   the tests under every Python from 3.11 on that is here, with the newest versions; once with the oldest"
	@echo "make lock sbom audit   what an installation consists of"
	@echo "make wheelhouse   all that a host without a network needs, and an installation from it"

demo: $(VENV)/installed
	$(BIN)/screen demo --out demo

lint: $(VENV)/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Needs no network once the extra is installed. The pictures of pages are made by docs/images.py, in Chromium.
docs: $(VENV)/docs
	for page in commands contract schemas templates methods reference; do $(BIN)/python docs/$$page.py || exit 1; done
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site

test: lint warm
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Beside `lint` under `make -j2`: each worker of a fresh clone would compile the numerical loops for itself.
warm: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python tests/warm.py

# What docs/benchmarks.md shows, measured again; a script whose data are not there says so. ONLY=WORD runs those with this word.
benchmarks: $(VENV)/installed-test
	$(BIN)/python benchmarks/run.py $(ONLY)

# The attacks of docs/reliability.md at their full number. What was tried is counted in faults.jsonl, and is not
# tried again: a run that was stopped goes on.
faults: $(VENV)/installed-test
	FAULTS=long FAULTS_LOG=$(CURDIR)/faults.jsonl $(BIN)/python -m pytest -p no:xdist tests/faults
	$(BIN)/python tests/faults/amounts.py faults.jsonl

fuzz: $(VENV)/installed-test
	$(BIN)/python tests/faults/fuzz.py --minutes $(MINUTES)

# Every Python from 3.11 on that is found, each with the newest versions in a fresh environment, and once with the oldest (half an hour each).
matrix:
	.ci/matrix

# What an installation consists of: its versions with hashes, as CycloneDX, and held against known weaknesses.
# `requirements.lock` is for hospitals (scoring, PostgreSQL, Excel, signatures), `requirements-test.lock` for tests.
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"
lock: $(VENV)/supply
	$(BIN)/uv pip compile $(LOCK) --extra test --output-file requirements-test.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK) --extra postgres --extra signing --extra xlsx --constraint requirements-test.lock \
		--output-file requirements.lock pyproject.toml

sbom: $(VENV)/supply
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-file sbom.json $(VENV)

audit: $(VENV)/supply
	$(BIN)/pip-audit --disable-pip --require-hashes --requirement requirements.lock

# Everything a host without a network needs, and the proof: it is installed from there alone, and scores a night.
wheelhouse: $(VENV)/supply
	rm -rf wheelhouse && mkdir wheelhouse
	$(BIN)/uv pip compile --quiet --generate-hashes --constraint requirements.lock \
		--output-file wheelhouse/requirements.txt pyproject.toml
	$(BIN)/pip download --quiet --only-binary :all: --require-hashes --dest wheelhouse --requirement wheelhouse/requirements.txt
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir wheelhouse .
	$(PYTHON) -m venv wheelhouse/venv
	wheelhouse/venv/bin/pip install --quiet --no-index --find-links wheelhouse --require-hashes --requirement wheelhouse/requirements.txt
	wheelhouse/venv/bin/pip install --quiet --no-index --no-deps wheelhouse/screening-*.whl
	cd wheelhouse && venv/bin/screen check ../sample_cohorts/nosocomial_past.csv --contract ../sample_cohorts/nosocomial.toml

clean:
	rm -rf $(VENV) demo wheelhouse build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/made:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found; install it, or say make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	touch $@

$(VENV)/installed: $(VENV)/made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $(VENV)/installed $@

$(VENV)/docs: $(VENV)/installed-test
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

$(VENV)/supply: $(VENV)/installed-test
	$(BIN)/python -m pip install --quiet ".[supply]"
	touch $@
