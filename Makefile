# benbi. Works with GNU make 3.81 and up, on Linux and macOS; needs a Python >= 3.11 and no root.
#
#   make test PYTHON=python3.13      another Python than the one that is found
#   make test VENV=.venv-13          another environment than .venv

VENV ?= .venv
DEMO_VENV ?= .venv-demo
BENCH_VENV ?= .venv-bench
DOCS_VENV ?= .venv-docs
PYTHON ?=
OUT ?= .ci/out
TESTS ?= tests
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=

BIN = $(VENV)/bin

.PHONY: help setup test test-all services check format demo docs soak bench build clean

help: ## print the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F '|' '{printf "make %-10s %s\n", $$1, $$2}'

setup: ## make .venv and install everything into it, once
	@scripts/setup "$(VENV)" dev "$(PYTHON)"

test: setup ## run all tests that need no server (TESTS=tests/walk: some), and print what was skipped
	@$(BIN)/python -m pytest $(TESTS) $(PYTEST_ARGS)

test-all: setup ## run each suite within its seconds, with all that make services installed
	@scripts/suites "$(BIN)/python" "$(OUT)/reports"

services: setup ## bring what test-all uses besides Python: the MCP suite, a PostgreSQL, PgBouncer
	@$(BIN)/python -m scripts.conformance install
	@$(BIN)/python -m scripts.services start

check: setup ## formatting, lint, types and import contracts
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted; make format does it" >&2; exit 1; }
	@$(BIN)/ruff check .
	@$(BIN)/pyright --pythonpath "$(BIN)/python"
	@$(BIN)/lint-imports --no-cache --no-logo

format: setup ## format the code, and repair what ruff can
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format .

demo: ## run examples/giftgenius in a lean environment (DEMO_ARGS="…")
	@scripts/setup "$(DEMO_VENV)" demo "$(PYTHON)"
	@$(DEMO_VENV)/bin/python examples/giftgenius/demo.py $(DEMO_ARGS)

docs: ## build the docs site into build/docs/html, and check its links
	@scripts/setup "$(DOCS_VENV)" docs "$(PYTHON)"
	@$(DOCS_VENV)/bin/python -m scripts.docs

soak: setup ## run all tests in their long forms: many seeds, many minutes (TESTS=tests/crash: some)
	@BENBI_SOAK=1 $(BIN)/python -m pytest $(TESTS) --timeout 0 $(PYTEST_ARGS)

bench: ## measure benbi beside its peers (BENCH_ARGS="…")
	@scripts/setup "$(BENCH_VENV)" bench "$(PYTHON)"
	@$(BENCH_VENV)/bin/python -m bench $(BENCH_ARGS)

build: setup ## build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build --quiet --no-isolation

clean: ## remove what the other targets made, environments included
	@rm -rf .venv .venv-demo .venv-bench .venv-docs .ci/out build/docs dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests scripts examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
