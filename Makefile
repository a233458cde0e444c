# Needs Python 3.11 or newer, pip and make; the rest goes into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# plait alone, which is all that the demonstration needs; and with what the tests need.
PLAIT := $(VENV)/.plait
INSTALLED := $(VENV)/.installed
# Without compiled files each process of the tests would compile plait anew.
unexport PYTHONDONTWRITEBYTECODE

# Above the overall floor of pyproject.toml: an error in one of these loses or hides somebody's notes.
CRITICAL := src/plait/stores/* src/plait/ranking/* src/plait/facts/* src/plait/writing/chunking*
CRITICAL_FLOOR := 95

# Parts of the tests, the longest first. make begins the next one as soon as one has ended, so that
# all cores are busy to the end; two parts more than cores, because many tests wait for processes.
PARTS := reliability unit interfaces flows people agents integrations mcp postgres contracts chat growth \
	conformance others tools
# Measuring coverage doubles the time of a test. `growth` compares times, and the others here go again
# through what the rest covers well enough.
UNMEASURED := flows mcp tools others growth chat
FOLDERS := reliability people interfaces flows mcp contracts agents chat tools postgres
MEASURED := $(filter-out $(UNMEASURED),unit $(FOLDERS))
$(foreach folder,$(FOLDERS),$(eval $(folder) := tests/$(folder)))
growth := tests/unit/test_linear_time.py
unit := tests/unit src --ignore=$(growth)
others := tests $(patsubst %,--ignore=tests/%,$(FOLDERS) unit)
JOBS := $(shell expr 2 + $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))
# Folders of tests that passed are removed at once, because they may be in memory.
PYTEST := pytest -q -p no:cacheprovider -o tmp_path_retention_policy=failed

# Most of the waiting is for syncs of small files, and no test needs them: files go into memory, where
# there is room (4 GB) and programs may run. TMPDIR=/tmp make test puts them elsewhere.
MEMORY_DISK = $(shell mount | grep ' /dev/shm ' | grep -qv noexec && \
	df -Pk /dev/shm | awk 'NR == 2 && $$4 > 4000000 { print $$6 }')

.PHONY: help demo test soak check bench bench-large clean $(PARTS)
.DEFAULT_GOAL := help

help:
	@echo "make demo   try plait on the sample memory"
	@echo "make test   all checks and tests, with coverage, conformance and integrations"
	@echo "make check  only the static checks"
	@echo "make soak   the long reliability tests"
	@echo "make bench  speed and memory of every operation, and of other systems"
	@echo "make bench-large  the same, also with a million passages"
	@echo "make conformance  the official MCP suite and Inspector, if npm is installed"
	@echo "make integrations  adapters and examples with the real frameworks, if pip reaches them"

# $(call install,WHAT)
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "plait needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing plait into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)'
endef

$(PLAIT): pyproject.toml
	$(call install,.)
	@touch $@

$(INSTALLED): pyproject.toml
	$(call install,.[dev])
	@touch $(PLAIT) $@

demo: $(PLAIT)
	@$(BIN)/python examples/demo.py

check: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(BIN)/deptry src

# The checks run beside the first tests: alone they would leave the other cores without work.
# PYTHONWARNDEFAULTENCODING: a file opened without an encoding reads differently on another machine.
test: $(INSTALLED)
	$(BIN)/coverage erase
	@TMPDIR="$${TMPDIR:-$(MEMORY_DISK)}" $(MAKE) --no-print-directory --jobs=$(JOBS) check $(PARTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	@set -f; for area in $(CRITICAL); do \
		echo "coverage of $$area, at least $(CRITICAL_FLOOR) %:"; \
		$(BIN)/coverage report --include="$$area" --fail-under=$(CRITICAL_FLOOR) || exit 1; \
	done

$(MEASURED): $(INSTALLED)
	PYTHONWARNDEFAULTENCODING=1 $(BIN)/coverage run -m $(PYTEST) $($@)

$(UNMEASURED): $(INSTALLED)
	PYTHONWARNDEFAULTENCODING=1 $(BIN)/python -m $(PYTEST) $($@)

soak: $(INSTALLED)
	PLAIT_SOAK=1 PYTHONWARNDEFAULTENCODING=1 $(BIN)/python -m pytest tests/reliability tests/mcp tests/postgres \
		tests/agents/hooks/test_rounds.py $(growth) tests/unit/test_postgres_any_question.py \
		tests/unit/test_postgres_trips.py -q
	$(BIN)/python -m pytest -m soak -q
	PGSERVER_POSTGRES_VERSION=16 $(BIN)/python -m pytest -m soak -q tests/contracts

bench: $(INSTALLED)
	$(BIN)/python benchmarks/run.py

bench-large: $(INSTALLED)
	$(BIN)/python benchmarks/run.py --million

conformance: $(INSTALLED)
	PYTHONPATH=src $(BIN)/python tests/mcp/conformance.py

# In an environment of its own: the frameworks need another version of the MCP SDK than our server.
integrations: $(INSTALLED)
	$(BIN)/python tests/integrations/run.py

clean:
	rm -rf $(VENV) .venv-integrations .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
