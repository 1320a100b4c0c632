# The verbs of the house. `make` alone lists them; each makes its own environment in .venv first.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMP := .venv/.stamp
# Goes to pytest, such as PYTEST_ARGS="-x -k append".
PYTEST_ARGS ?=
# The tests of the clients: all, or some files.
CLIENTS ?= integration/clients
# How many processes run the tests: one more than can, because tests wait now and then.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# Where quick tests keep their stores: in memory where there is room, for waiting until a disk has
# flushed and removed files would be most of their time. `make integration` uses the disk.
SCRATCH ?= $(shell df --output=avail -BM /dev/shm 2>/dev/null | awk '$$1 + 0 >= 4096 { print "/dev/shm" }')
# Goes to the soaks, such as SOAK_ARGS="--minutes 60 --seed 7".
SOAK_ARGS ?=
# Seeds of the world, such as SEEDS=1-2000, and more for it, such as WORLD_ARGS="--jobs 1"; which
# faults are planted, such as PLANTED="no-flush offsets-fall".
SEEDS ?=
WORLD_ARGS ?=
# Goes to slow, such as SLOW_ARGS="--only replicas".
SLOW_ARGS ?=
# Goes to mutants, such as MUTANTS_ARGS="--count 200 --only recovery".
MUTANTS_ARGS ?=
# Goes to fuzz, such as FUZZ_ARGS="--minutes 5".
FUZZ_ARGS ?=
# Goes to bench-peers, such as PEERS_ARGS="--pairs 9 --dry".
PEERS_ARGS ?=
# Works or peers for bench-peers; rows of all others stay as they are.
ONLY ?=

.PHONY: help
help: ## List the verbs
	@echo "ArianeMQ. Verbs of make:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMP) ## A year of flights through a real cluster and Spark, with every total checked
	@$(BIN)/python integration/demo

.PHONY: year
year: $(STAMP) ## What Spark makes of a year of flights: archive, joins, sessions, replay; every total checked
	@$(BIN)/python integration/year

.PHONY: dev
dev: $(STAMP) ## A whole cluster on this machine until Ctrl-C, empty and gone afterwards
	@$(BIN)/ariane dev

.PHONY: test
test: $(STAMP) ## The tests that take seconds
	@TMPDIR="$${TMPDIR:-$(SCRATCH)}" $(BIN)/pytest -m "not slow" -n $(WORKERS) --no-loadscope-reorder $(PYTEST_ARGS)

.PHONY: check
check: $(STAMP) ## Format, lint, types, import contracts, protos, pages, our own rules
	@$(BIN)/python -m tools.check

.PHONY: fmt
fmt: $(STAMP) ## Format code and protos, and mend what ruff can mend safely
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/python -m tools.protos format --write

.PHONY: protos
protos: $(STAMP) ## Generate the stubs from the protos and move the baseline forward
	@$(BIN)/python -m tools.protos generate

.PHONY: docs
docs: $(STAMP) ## Write the pages of docs/ that are made from the code
	@$(BIN)/python -m tools.reference generate

.PHONY: site
site: $(STAMP) ## The documents and the Python API as a site with a search box, in out/site
	@$(BIN)/python -m tools.site

.PHONY: bench
bench: $(STAMP) ## Measure ourselves, as ratios to what the machine can do
	@$(BIN)/python -m bench.run

.PHONY: bench-peers
bench-peers: $(STAMP) ## Measure ourselves beside RocketMQ, Kafka and others; QUICK=1, ONLY="kafka latency"
	@$(BIN)/python bench/peers $(if $(filter-out 0 no false,$(QUICK)),--quick) $(foreach word,$(ONLY),--only $(word)) $(PEERS_ARGS)

.PHONY: integration
integration: $(STAMP) ## All tests, with the slow ones over real processes
	@$(BIN)/pytest $(PYTEST_ARGS)

.PHONY: closed-test
closed-test: $(STAMP) ## The quick tests over real processes on clusters that are closed, as a user with rights
	@$(BIN)/pytest --closed -m "not slow" integration/scenarios integration/faults integration/clients integration/commands integration/gateway integration/soak $(PYTEST_ARGS)

.PHONY: slow
slow: $(STAMP) ## The slow tests, file by file; goes on where it was broken off, and keeps what became of each
	@$(BIN)/python -m tools.slow $(SLOW_ARGS)

.PHONY: soak
soak: $(STAMP) ## Five minutes of messages while every kind of process is restarted and killed
	@$(BIN)/python integration/soak $(SOAK_ARGS)

.PHONY: soak-partitions
soak-partitions: $(STAMP) ## A group of three brokers cut apart, killed, unplugged, a hundred seeds; needs root
	@$(BIN)/python integration/partitions --seeds 100 $(SOAK_ARGS)

.PHONY: world-planted
world-planted: $(STAMP) ## The same with each fault that is planted: ten minutes of seeds each, unless one finds it
	@$(BIN)/python integration/world --planted $(PLANTED) $(if $(SEEDS),--seeds $(SEEDS)) $(WORLD_ARGS)

.PHONY: world
world: $(STAMP) ## The house in one thread by seeds: a minute of them, or SEEDS=1-2000
	@$(BIN)/python integration/world $(if $(SEEDS),--seeds $(SEEDS),--seconds 60) $(WORLD_ARGS)

.PHONY: mutants
mutants: $(STAMP) ## Small wrong changes to the core: which does no test notice?
	@$(BIN)/python -m tools.mutants $(MUTANTS_ARGS)

.PHONY: conformance
conformance: $(STAMP) ## Our gRPC against grpcio, the programs of Go, Java and Node, h2spec and grpcurl, had once
	@$(BIN)/pytest wire/tests/conformance wire/tests/hostile $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: $(STAMP) ## An hour of inputs led by coverage to both ends of our gRPC; FUZZ_ARGS="--minutes 5"
	@$(BIN)/python wire/tests/fuzz $(FUZZ_ARGS)

.PHONY: fuzz-parsers
fuzz-parsers: $(STAMP) ## Two minutes of inputs led by coverage to each parser of foreign bytes, noted in fuzzed.txt; FUZZ_ARGS="--only token --minutes 5"
	@$(BIN)/python integration/parsers $(FUZZ_ARGS)

.PHONY: clients
clients: $(STAMP) ## The clients in Go, Java and TypeScript, as far as their toolchains are here; ONLY="go java"
	@$(BIN)/python -m tools.clients $(ONLY)

.PHONY: clients-test
clients-test: $(STAMP) ## The clients' scenarios, every language with every other, and their quick starts
	@$(BIN)/pytest $(CLIENTS) -n 3 --dist loadfile $(PYTEST_ARGS)

.PHONY: gateway-test
gateway-test: $(STAMP) ## RocketMQ's own clients, as published, on a cluster behind our gateway
	@$(BIN)/pytest integration/gateway $(PYTEST_ARGS)

.PHONY: images
images: $(STAMP) ## The services' container images, by docker or podman; ONLY="broker admin"
	@$(BIN)/python -m tools.images $(ONLY)

.PHONY: stack-test
stack-test: $(STAMP) images ## The stack of compose/ for real: traffic, a broker killed and replaced, nothing lost
	@$(BIN)/pytest -s integration/stack $(PYTEST_ARGS)

.PHONY: dist
dist: $(STAMP) ## Wheel and source distribution of every published member, checked, in dist/
	@$(BIN)/python -m tools.dist

.PHONY: constraints
constraints: $(STAMP) ## Pin the environment anew: tools/requirements.in and members to constraints.txt
	@$(BIN)/python -m tools.constraints

.PHONY: clean
clean: ## Remove what make has made, the environment too
	@rm -rf .venv .cache .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis out
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): tools/bootstrap.sh tools/constraints.txt $(wildcard */pyproject.toml */*/pyproject.toml)
	@tools/bootstrap.sh
