# Everything a fresh checkout needs, and the commands of a working day. `make test` and `make demo`
# do their own set-up: they need a Python 3.11 or newer, and nothing else on the machine but Java 17
# for Spark. PYTHON=python3.12 picks another interpreter; PYTEST_ARGS=--durations=9 goes to pytest.
# CHAOS_RUNS=5 makes `make chaos` and `make chaos-eos` shorter, SOAK_MINUTES=5 the soak, BENCH_RUNS=1
# the benchmarks. PACKAGE_ARGS='--python python3.13 --extra cli' has `make package` install less.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := assignors offsets coop_consumer streams_adapter
PYTEST_ARGS ?=
CHAOS_RUNS ?= 20
SOAK_MINUTES ?= 30
BENCH_RUNS ?= 3
PACKAGE_ARGS ?=

# Tests start hundreds of processes. Without the cache each of them would compile the project anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv jars test test-spark test-others chaos chaos-eos chaos-logs soak bench lint docs package demo demo-skew demo-spark operate

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

venv: $(STAMP)  ## Make .venv with the package and all its extras

# The stamp is written last: an interrupted installation is taken up again, and an environment
# without pip (a Python that lacks ensurepip leaves one behind) is made anew.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "This needs Python 3.11 or newer, and '$(PYTHON)' is not: `$(PYTHON) --version 2>&1`." >&2; \
		echo "Name another one, as in: make PYTHON=python3.12 $(or $(MAKECMDGOALS),venv)" >&2; \
		exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test,demo,spark]'
	@touch $@

jars: venv  ## Bring the broker's jars into the cache, or verify them
	@$(BIN)/python -m coop_consumer.broker

# Most tests wait for brokers more than they compute. So three processes share two cores: one runs
# all of Spark's tests first, while the others wait for brokers. See tests/support/sharing.py.
SHARED := --numprocesses=3 --dist=loadfile --no-loadscope-reorder

test: jars  ## Run every test but the chaos ones
	$(BIN)/python -m pytest -m 'not chaos' $(SHARED) $(PYTEST_ARGS)

test-others: jars
	$(BIN)/python -m pytest -m 'not chaos and not spark' $(SHARED) $(PYTEST_ARGS)

test-spark: jars
	$(BIN)/python -m pytest -m 'spark and not chaos' $(PYTEST_ARGS)

chaos: jars  ## Run every fault on real brokers CHAOS_RUNS times, over an hour; prints a table
	$(BIN)/python -m tests.chaos --runs $(CHAOS_RUNS)

chaos-eos: jars  ## The same for members with exactly once: are outputs and state right?
	$(BIN)/python -m tests.chaos --exactly-once --runs $(CHAOS_RUNS)
	$(BIN)/python -m pytest -m chaos tests/integration/test_transactor.py

chaos-logs: jars  ## Judge 2 x 50 histories of the KV store, and kill bulk loads 50 times
	$(BIN)/python -m tests.chaos.logs

soak: jars  ## Let one group live through one fault after the other for SOAK_MINUTES
	$(BIN)/python -m tests.chaos --soak $(SOAK_MINUTES)

# The charts' library is an extra of its own, so that a test environment does without it.
bench: jars  ## Measure all cases with all peers, over an hour; writes docs/benchmarks/
	@$(BIN)/python -c 'import matplotlib' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks --all --runs $(BENCH_RUNS) --out docs/benchmarks

lint: venv  ## Check format, rules, types, and the direction of imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy --strict $(addprefix --package ,$(PACKAGES))
	$(BIN)/mypy --strict tests/typing benchmarks examples
	$(BIN)/lint-imports

# Pages that a table makes, and whether every link, block and name of all pages leads somewhere.
docs: venv  ## Make the pages that are generated anew, and check all pages
	$(BIN)/python -m coop_consumer.config.reference > docs/configuration.md.new && mv docs/configuration.md.new docs/configuration.md
	$(BIN)/python -m coop_consumer.config.typed_reference > coop_consumer/config/settings_dict.py.new && mv coop_consumer/config/settings_dict.py.new coop_consumer/config/settings_dict.py
	$(BIN)/python -m coop_consumer.ops.reference > docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md
	$(BIN)/python -m pytest --quiet tests/unit/test_docs.py tests/unit/test_pages.py

package: venv  ## Build sdist and wheel into dist/, check them, and install the wheel afresh; minutes
	@$(BIN)/python -c 'import build, twine, check_wheel_contents' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --editable '.[package]'
	$(BIN)/python -m tests.packages $(PACKAGE_ARGS)

demo: jars  ## Many workers share three partitions of real flights
	$(BIN)/coop-consumer demo

demo-skew: jars  ## Even ranges beside ranges cut by load, for flights by destination and by carrier
	$(BIN)/python -m coop_consumer.demo.skew

operate: jars  ## A group of four with page, exporter and Prometheus; a key gets stuck
	$(BIN)/python examples/operate.py

demo-spark: jars  ## The same flights as a pipeline on a Spark cluster of this machine's
	$(BIN)/python examples/flights_on_spark.py
