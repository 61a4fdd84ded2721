# Every target works on a fresh clone: it runs the set-up first, which does nothing when it is up to date.
# `make help` lists the targets; a target's description is the text after its `##`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SEEDS ?= 100
SEED ?= 0
KILLS ?= 200
ROUNDS ?= 100
MINUTES ?= 10

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  %-11s %s\n' "$$name" "$$text"; done

.PHONY: setup
setup: ## install everything into .venv (needs Python 3.11; uv is used if there is one)
	@.ci/setup

.PHONY: demo
demo: setup ## start an embedded federation, place a 512-pod gang, show why; DEMO=once ends instead of staying up
	@$(BIN)/hanse demo $(if $(filter once,$(DEMO)),--once)

.PHONY: services
services: ## bring etcd, mosquitto, Prometheus and Chromium, which tests start (Debian's packages, if root)
	@.ci/services prometheus chromium

.PHONY: test
test: setup services ## run every test; TESTS=… narrows it: paths or pytest options
	@$(BIN)/python -m pytest $(TESTS)

# What operating it rests on: telemetry, dashboards, alerts, the console, the door, and a life of years.
OPERATIONS := tests/unit/operations tests/unit/console tests/integration/telemetry tests/integration/console \
	tests/integration/api tests/integration/test_access_processes.py tests/integration/test_tls_processes.py \
	tests/integration/test_joining.py tests/integration/test_leaving.py tests/integration/test_restoring.py \
	tests/integration/test_upgrade.py tests/integration/test_tutorials.py

.PHONY: test-operations
test-operations: setup services ## test what operates it: telemetry, alerts, console, door, upgrades; with Go the chart and Jaeger too
	@$(BIN)/python -m pytest $(OPERATIONS)
	@if e2e/tools/find-go; then e2e/tools/build kubernetes kwok helm jaeger && $(BIN)/python -m pytest e2e/test_chart.py e2e/test_rights.py e2e/test_jaeger.py; fi

.PHONY: e2e-tools
e2e-tools: setup ## build a real Kubernetes control plane and controllers from pinned Go modules; KUBEBUILDER_ASSETS names one that is there
	@e2e/tools/build kubernetes kwok helm kind jobset training-operator kueue

.PHONY: e2e
e2e: setup e2e-tools ## test against real API servers on the loopback; TESTS=… narrows it: paths or pytest options
	@$(BIN)/python -m pytest $(or $(TESTS),e2e --ignore=e2e/test_jaeger.py -m 'not every_kind')

.PHONY: e2e-all
e2e-all: setup e2e-tools ## the same with the real controllers of every kind of job, all of which are built first
	@e2e/tools/build mpi-operator trainer lws ray appwrapper
	@$(BIN)/python -m pytest $(or $(TESTS),e2e --ignore=e2e/test_jaeger.py)

.PHONY: e2e-kind
e2e-kind: setup ## run jobs on CLUSTERS clusters (default 2) that kind makes; needs Docker
	@e2e/tools/build kind
	@e2e/kind/run $(TESTS)

.PHONY: e2e-jaeger
e2e-jaeger: setup services ## build Jaeger from its Go module, and look one job's trace up in it
	@e2e/tools/build jaeger
	@$(BIN)/python -m pytest e2e/test_jaeger.py

.PHONY: check
check: setup ## style, types, import contracts, generated code, protos: everything that needs no run
	@$(MAKE) -j2 --keep-going --output-sync=target check-types check-rest

.PHONY: check-types
check-types:
	@$(BIN)/mypy

.PHONY: check-rest
check-rest: check-style check-imports check-protos check-docs

.PHONY: check-style
check-style:
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { $(BIN)/ruff format --check; exit 1; }

.PHONY: check-imports
check-imports:
	@said=$$($(BIN)/lint-imports --no-logo 2>&1) || { printf '%s\n' "$$said"; exit 1; }

.PHONY: check-protos
check-protos:
	@$(BIN)/python proto/generate.py --check
	@$(BIN)/buf lint

.PHONY: check-docs
check-docs:
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file .ci/site/mkdocs.yml

.PHONY: docs
docs: setup check-docs ## build docs/ as a site into docs-site/; a link that leads nowhere fails

.PHONY: placements
placements: setup ## compare TREES random small pools (default 50,000) with the slow solver, on every route of the fast one
	@HANSE_PLACEMENT_TREES=$(or $(TREES),50000) $(BIN)/python -m pytest -q tests/property/test_placement_trees.py

.PHONY: sim
sim: setup ## simulate whole federations under faults: SEEDS=how many, SEED=the first; fails on any violation
	@$(BIN)/python -m tests.sim --seeds $(SEEDS) --seed $(SEED)

.PHONY: removal
removal: setup ## take each check on an epoch, an attempt or a revision out of the product and let SEEDS (1000) find it; ONLY=part of a path
	@$(BIN)/python -m tests.sim.removal --seeds $(if $(filter file,$(origin SEEDS)),1000,$(SEEDS)) --seed $(SEED) $(if $(ONLY),--only $(ONLY))

.PHONY: kills
kills: setup services ## kill, freeze or stop KILLS processes of a federation at random moments, and audit; SEED=which
	@HANSE_KILLS=$(KILLS) HANSE_KILLS_SEED=$(SEED) $(BIN)/python -m pytest -q tests/integration/test_processes.py -k any_process

.PHONY: chaos
chaos: setup ## rage for MINUTES through a federation of real processes: kills, cuts, full disks, clocks; SEED=which
	@.ci/services faketime
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(filter-out 0,$(SEED)),--seed $(SEED))

.PHONY: etcd-faults
etcd-faults: setup services ## kill and freeze etcd's members at random under load, ROUNDS times; fails on a lost or doubled write
	@ETCD_FAULT_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q tests/integration/etcd/test_faults.py -k random

SERVED_BENCHES := path store start
CLUSTER_BENCHES := kubernetes peers

.PHONY: bench
bench: setup $(if $(filter $(SERVED_BENCHES),$(BENCH)),services) $(if $(filter $(CLUSTER_BENCHES),$(BENCH)),e2e-tools) ## measure: BENCH=name [VAR=value …]; prints a table, writes bench/out/NAME.json
	@$(BIN)/python -m bench.run $(MAKEOVERRIDES)

.PHONY: console-shots
console-shots: setup services ## take the pictures of the console in docs/img anew
	@$(BIN)/python -m tests.integration.console.shots docs/img

.PHONY: proto
proto: setup ## generate proto/gen from the protos
	@$(BIN)/python proto/generate.py

.PHONY: fmt
fmt: setup ## put the code into its form
	@$(BIN)/ruff check --quiet --fix-only
	@$(BIN)/ruff format

.PHONY: clean
clean: ## remove what set-up, caches and benches left
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage bench/out
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
