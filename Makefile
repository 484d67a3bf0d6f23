PYTHON ?= python3
VENV   := .venv
export PYTHONDONTWRITEBYTECODE :=  # compiled once, not in every process that the tests start
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
PINS   := pyproject.toml constraints.txt

# What `make test` leaves to `make test-all` (optional libraries, the lab) and to `make experiments`.
EXTRAS := torch or cluster or mujoco or train or lab
WORKERS := -n 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check size docs release-check gallery bench evidence experiments clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' Makefile

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-core: $(PINS) | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.stamp-test: $(PINS) | $(BIN)/python
	$(PIP) -e '.[test]'
	@touch $(VENV)/.stamp-core $@

$(VENV)/.stamp-all: $(VENV)/.stamp-test
	$(PIP) -e '.[test-all]'
	@touch $@

# The sample of the Open Bandit logs that comes with the package is read; nothing of it is imported.
$(VENV)/.stamp-experiments: $(VENV)/.stamp-all
	$(PIP) --no-deps obp==0.4.1
	@touch $@

$(VENV)/.stamp-docs: $(PINS) | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $(VENV)/.stamp-core $@

$(VENV)/.stamp-release: $(VENV)/.stamp-docs
	$(PIP) -e '.[release]'
	@touch $@

demo: $(VENV)/.stamp-core ## install the core library and run the demonstration
	$(BIN)/bondic demo --force

check: $(VENV)/.stamp-test ## formatting, lint, types and import contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports

test: check ## check, then every test that needs no optional library and is not of the lab
	$(BIN)/pytest $(WORKERS) -m "not ($(EXTRAS)) and not slow"

test-all: $(if $(TESTED),,test) $(VENV)/.stamp-all ## test (unless TESTED=1), then those of the lab and those that need torch, mujoco and dask
	$(BIN)/pytest $(WORKERS) -m "($(EXTRAS)) and not slow"

size: ## lines of every package, of the core, the lab and the tests, against budget.toml
	@$(PYTHON) scripts/size.py

docs: $(VENV)/.stamp-docs ## build the documentation into site/, offline
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release-check: $(VENV)/.stamp-release ## what has to hold before a version is published; uploads nothing
	$(BIN)/python scripts/release_check.py

gallery: $(VENV)/.stamp-test ## make the pictures of the documentation again (needs Chromium)
	$(BIN)/python scripts/make_gallery.py

bench: $(VENV)/.stamp-test ## run the benchmarks
	@if [ -f benchmarks/run_all.py ]; then $(BIN)/python benchmarks/run_all.py; \
	else echo "no benchmarks/run_all.py yet"; fi

evidence: $(VENV)/.stamp-experiments ## make the table of the page on evidence again (about an hour)
	$(BIN)/python experiments/evidence.py --page docs/evidence.md

experiments: $(VENV)/.stamp-experiments ## the long statistical runs; a page for each in out/
	$(BIN)/pytest -m slow --timeout 0
	$(BIN)/python experiments/coverage.py --out out/coverage.json
	$(BIN)/python experiments/damaged_certificates.py --count 20000
	$(BIN)/python experiments/baselines.py --out out/baselines.json --page out/baselines.md
	@mkdir -p out
	$(BIN)/python experiments/corruptions.py --page out/corruptions.md
	$(BIN)/python experiments/findings.py
	$(BIN)/python experiments/defaults.py --out out/defaults.json --page out/defaults.md
	$(BIN)/python experiments/coverage_defaults.py --out out/defaults-coverage.json --page out/defaults-coverage.md
	$(BIN)/python experiments/sequential_events.py --out out/sequential-events.json --page out/sequential-validity.md
	$(BIN)/python experiments/sequential_coverage.py --out out/sequential-coverage.json --page out/sequential-coverage.md
	$(BIN)/python experiments/propensity_coverage.py --out out/propensity-coverage.json --page out/propensity-coverage.md
	$(BIN)/python experiments/decisions.py --out out/decisions.json --page out/decision-coverage.md
	$(BIN)/python experiments/decision_lengths.py --page out/decision-lengths.md
	$(BIN)/python experiments/decision_peers.py --page out/decision-peers.md
	$(BIN)/python experiments/propensity_logs.py --out out/propensity-logs.json --page out/propensity-logs.md
	$(BIN)/python experiments/betting_numbers.py --page out/betting-numbers.md
	$(BIN)/python experiments/tightness.py --out out/tightness.json --page out/tightness.md
	$(BIN)/python experiments/real_logs.py --page out/real-logs.md
	$(BIN)/python experiments/this_log.py --page out/this-log.md
	$(BIN)/python experiments/ways_out.py --page out/ways-out.md
	$(BIN)/python experiments/sampled_starts.py
	$(BIN)/python experiments/allowances.py --workers 2
	$(BIN)/python experiments/allowances.py --workers 2 --lengths --seeds 5
	$(BIN)/python experiments/allowances.py --seeds 0 --page out/allowances.md
	$(BIN)/python experiments/tables.py --page out/table-lengths.md
	$(BIN)/python experiments/medical_table.py

clean: ## remove the environment, caches and build output
	rm -rf $(VENV) build dist out site bondic-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests experiments benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
