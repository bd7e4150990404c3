# `make demo` and `make test` are all that a fresh clone needs; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# The first interpreter that can be used: a name on the PATH may be a shim that leads nowhere, or lack venv.
PYTHON ?= $(shell for python in python3.12 python3.11 python3; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' \
	2>/dev/null && echo $$python && break; done)

BIN := .venv/bin
DEMO_ARGS ?=
FALSE_ALARM_ARGS ?= ../shared/data/clinc150_queries.jsonl
TEST_ARGS ?=
# Benchmarks run on the BLAS kernel that the program would name (monitor/blas_kernel.py), unless BENCH_ENV names one.
ONE_THREAD := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
BENCH_ENV ?=
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

NO_PYTHON := Groundwatch needs Python 3.11 or 3.12 with its venv module (on Debian: python3-venv), and none was found. Name one: make PYTHON=/path/to/python3.12

.PHONY: help demo test test-newest check-long lint format bench bench-drift bench-ingest bench-attribution bench-charts bench-false-alarms clean

help:  ## say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

demo: .venv/default.stamp  ## a RAG service, an incident, and the sidecar that sees it (DEMO_ARGS="--duration 90s")
	$(BIN)/groundwatch demo $(DEMO_ARGS)

test: .venv/full.stamp  ## all tests but the long ones, with coverage (TEST_ARGS="-k guardrail")
	$(BIN)/python tests/parts.py fetch
	$(BIN)/python -m pytest -m "not long" --cov --cov-report=term $(TEST_ARGS)

test-newest: .venv-newest/full.stamp  ## the detectors' tests with the newest numpy and transformers
	.venv-newest/bin/python -m pytest -m "not long" detectors tests/unit/detectors $(TEST_ARGS)

check-long: .venv/full.stamp  ## what takes minutes: soaks, kill loops, fuzzing, simulated months
	$(BIN)/python tests/parts.py fetch
	$(BIN)/python -m pytest -m long $(TEST_ARGS) || { status=$$?; test $$status -eq 5 && echo "there is no long test"; }

lint: .venv/full.stamp  ## style, formatting, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/full.stamp  ## put every file into its format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/full.stamp  ## measure speeds on this machine
	for bench in tests/bench/bench_*.py; do $(ONE_THREAD) PYTHONPATH=tests $(BIN)/python $$bench; done

bench-drift: .venv/full.stamp  ## the MMD engine beside alibi-detect, one thread (BENCH_ENV="OPENBLAS_CORETYPE=SkylakeX")
	$(ONE_THREAD) $(BENCH_ENV) $(BIN)/python tests/bench/bench_drift.py

bench-ingest: .venv/full.stamp  ## how fast traces are read, beside a bare decode of the same bytes
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python tests/bench/bench_ingest.py

bench-attribution: .venv/full.stamp  ## how often a drift's slices are found, and falsely accused
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python tests/bench/attribution.py

bench-charts: .venv/full.stamp  ## false alarms and delay of control charts beside text-book ones
	$(ONE_THREAD) $(BIN)/python tests/bench/control_charts.py

bench-false-alarms: .venv/full.stamp  ## simulated months: false alarms of query drift, and its delays (FALSE_ALARM_ARGS="queries.jsonl vectors.npz --streams 40")
	$(ONE_THREAD) $(BIN)/python tests/bench/false_alarms.py $(FALSE_ALARM_ARGS)

clean:  ## remove everything that make made
	rm -rf .venv .venv-newest .parts .coverage build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python .venv-newest/bin/python:
	@test -n "$(PYTHON)" || { echo "$(NO_PYTHON)" >&2; exit 2; }
	$(PYTHON) -m venv $(@D:/bin=)

.venv/default.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python $(PIP_INSTALL) --editable .
	touch $@

# alibi-detect holds numpy below 2 and transformers below 5; test-newest runs with what it forbids.
.venv/full.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python $(PIP_INSTALL) --editable '.[hhem,alibi,embed,test,lint]'
	touch $@ .venv/default.stamp

.venv-newest/full.stamp: pyproject.toml | .venv-newest/bin/python
	.venv-newest/bin/python $(PIP_INSTALL) --editable '.[hhem,embed,test]'
	touch $@
