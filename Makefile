# Shortcuts for work on this repository; `make` alone lists them.

PYTHON ?= python3
BIN := .venv/bin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

test: .venv ## run all tests, style and types included
	$(BIN)/python -m pytest -n 2

slow: .venv ## run the tests that are too long for CI
	$(BIN)/python -m pytest -m slow

lint: .venv ## check the style
	$(BIN)/ruff check .

types: .venv ## check the types
	$(BIN)/mypy

accept: .venv ## rewrite the expected texts in tests (T=path limits it); read the diff before you commit
	EXPECTTEST_ACCEPT=1 $(BIN)/python -m pytest $(T)

generated: .venv ## rewrite what follows from the registry: jit/_stubs, jit/ops/index.py and docs/operators.md
	$(BIN)/python -m jit.command.stubs
	$(BIN)/python -m jit.ops.catalog docs > docs/operators.md

docs: .venv ## build the documentation site in docs/_site/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_site/html

examples: .venv ## run the examples
	set -e; for program in examples/*.py examples/models/*.py; do echo "== $$program"; $(BIN)/python "$$program"; done

clean: ## remove the environment, the site and all caches
	rm -rf docs/_made docs/_site .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e ".[test]"
	touch .venv

.PHONY: help test slow lint types accept generated docs examples clean
