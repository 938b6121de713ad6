# Every target makes or updates .venv by itself, from the pins in requirements/. `make help` lists them.

# The environment, and the Python that it is made with; `.ci/run fast` has one for each Python.
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?=
# Processes of the test run: one more than the cores of a small machine, since many tests wait for processes and browsers.
JOBS ?= 3
# What to test, and further options of pytest: make test ARGS="tests/nursery -k stream_parser"
ARGS ?=
# Seconds for each soak test, and the seed to start from (any number; printed when a test fails).
SOAK ?= 120
SOAK_ENGINE ?= 7200
SEED := $(or $(SEED),$(shell date +%s))
# A whole test run with fewer cancelled runs than this is a failure.
CANCELLED_RUNS ?= 20000

PYTEST := $(BIN)/python -m pytest
GUARDS := tests/test_layers.py tests/test_imports.py tests/test_surface.py tests/test_scripts.py tests/test_docs_*.py
# It looks for the environment by the python on PATH: --verifytypes does not heed --pythonpath.
PYRIGHT := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright
SOURCES := $(wildcard engine tests benchmarks docs/conf.py docs/examples scripts)
comma := ,
say = @printf '%s\n' "== $(1)"

# The tests start some thousand processes: each would compile the engine again where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast full check static soak soak-engine bench bench-peers cover lint ruff flake8-async types mypy pyright guards words shape docs wheel fragments format surface picture pins prices packages ray javascript core dev clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

core dev: # the environment: of the demo, of the developers
	@VENV='$(VENV)' PYTHON='$(PYTHON)' scripts/venv.sh $@

demo: core ## the main job, offline and unattended, in a scratch folder
	@$(BIN)/engine demo

test: dev ## every test; long enumerations are sampled
	@$(PYTEST) -n $(JOBS) --dist worksteal $(or $(ARGS),--require-runs $(CANCELLED_RUNS))

test-fast: dev ## the unit tests: no processes, nothing that takes seconds
	@$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow and not os and not soak" $(ARGS)

full: check ## what a release needs: the checks, and every test with nothing sampled
	@$(PYTEST) -n $(JOBS) --dist worksteal --full --require-runs $(CANCELLED_RUNS) --timeout 3600 -o faulthandler_timeout=0 $(ARGS)

check: static guards ## lint, types, words, documentation, wheel, import layers, examples

# The longest first, for two at a time.
static: types lint docs wheel words javascript shape fragments # what needs no test run

soak: dev ## the property tests for SOAK seconds each, from SEED
	@$(PYTEST) tests/properties tests/permission tests/os/test_kill.py tests/store -m soak -n $(JOBS) --dist worksteal --soak-seconds $(SOAK) --soak-seed $(SEED) \
		--hypothesis-seed $(SEED) --timeout $$(( $(SOAK) * 2 + 600 )) -o faulthandler_timeout=0 $(ARGS)

soak-engine: dev ## 200 sessions at a time, failing and flooding hosts, cancels, clients that leave: for SOAK_ENGINE seconds
	@$(PYTEST) tests/os/test_soak_engine.py --soak-seconds $(SOAK_ENGINE) --soak-seed $(SEED) --timeout $$(( $(SOAK_ENGINE) * 2 + 600 )) \
		-o faulthandler_timeout=0 $(ARGS)

bench: ## the figures, each beside a baseline measured in the same run
	@PYTHON='$(PYTHON)' scripts/venv.sh bench || { \
		echo "the official SDKs can't be installed: their rows will say so" >&2; $(MAKE) --no-print-directory dev; }
	@$(BIN)/python -m benchmarks $(ARGS)

bench-peers: dev ## the same scenarios for this engine and its peers, which are installed into .peers (1.6 GB)
	@$(BIN)/python -m benchmarks.peers --install $(ARGS)

cover: dev ## branch coverage of the tests: 95% of the whole, all of nursery/
	@rm -f .coverage .coverage.*
	@$(PYTEST) -n $(JOBS) --dist worksteal --full --timeout 3600 --cov --cov-report= --cov-fail-under=0 $(ARGS)
	@$(BIN)/coverage report
	@$(BIN)/coverage report --include='engine/nursery/*' --fail-under=100

lint: ruff flake8-async

ruff: dev
	$(call say,ruff check)
	@$(BIN)/ruff check --quiet $(SOURCES)
	$(call say,ruff format --check)
	@$(BIN)/ruff format --quiet --diff $(SOURCES)
	$(call say,codespell)
	@$(BIN)/codespell $(SOURCES) docs newsfragments *.md

# By a script that spares it most of its work: it takes a second for a thousand lines.
flake8-async: dev
	$(call say,flake8-async)
	@$(BIN)/python -m scripts.async_rules --enable $(ASYNC_RULES)$(comma)$(ASYNC_RULES_OF_THE_ENGINE) $$(grep $(IS_ASYNC) engine)
	@$(BIN)/python -m scripts.async_rules --enable $(ASYNC_RULES) $$(grep $(IS_ASYNC) $(filter-out engine docs/examples,$(SOURCES)))
	@# One of the examples shows how a generator holds the block of a turn.
	@$(BIN)/python -m scripts.async_rules --enable $(subst ASYNC119$(comma),,$(ASYNC_RULES)) $$(grep $(IS_ASYNC) docs/examples)

IS_ASYNC := --recursive --files-with-matches --word-regexp --extended-regexp --include='*.py' 'async|await|trio'

# What ruff lacks. Tests may have async generators (fixtures). Not 910, a checkpoint on every path of every async function:
# one that finds the slot settled has to return at once, since a checkpoint there would be one more place to be cancelled.
ASYNC_RULES := ASYNC101,ASYNC102,ASYNC103,ASYNC104,ASYNC112,ASYNC113,ASYNC118,ASYNC119,ASYNC120,ASYNC123,ASYNC125,ASYNC126
ASYNC_RULES_OF_THE_ENGINE := ASYNC900,ASYNC911,ASYNC912

types: mypy pyright

mypy: dev
	$(call say,mypy)
	@$(BIN)/mypy --no-error-summary $(SOURCES)

pyright: dev
	$(call say,pyright)
	@$(PYRIGHT) --warnings
	$(call say,pyright --verifytypes)
	@$(PYRIGHT) --verifytypes engine --ignoreexternal

packages: ## what the tests of the JavaScript need, from npm
	@cd tests/javascript && npm install --silent --prefer-offline

ray: dev ## what the tests of batches on Ray need (80 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --requirement requirements/ray.txt

javascript: # types; strict in the client, whose types users see
	$(call say,javascript)
	@[ -x $(TSC) ] && command -v node >/dev/null || { echo "SKIPPED: it needs node, and what make packages installs"; exit 0; }; \
		$(TSC) -p tests/javascript && $(TSC) -p tests/javascript/tsconfig.page.json

TSC := tests/javascript/node_modules/.bin/tsc

guards: dev
	$(call say,import layers$(comma) import cost$(comma) public surface$(comma) examples)
	@$(PYTEST) -q -n $(JOBS) $(GUARDS)

words: dev # private words, and messages of the command line; see scripts/check_words.py and check_messages.py
	$(call say,words)
	@$(BIN)/python scripts/check_words.py
	@$(BIN)/python -m scripts.check_messages

shape: dev # branches, nesting, members, lines; see scripts/check_shape.py
	$(call say,shape)
	@$(BIN)/python -m scripts.check_shape

docs: dev ## the documentation as a site, in build/docs; links checked
	$(call say,documentation)
	@$(BIN)/sphinx-build -q -E -W --keep-going -b html docs build/docs

wheel: dev
	$(call say,wheel)
	@$(BIN)/python scripts/wheel_smoke.py

# Advisory: says that a fragment is missing, and fails nothing.
fragments: dev
	$(call say,news fragment (advisory))
	@git rev-parse --quiet --verify origin/main >/dev/null 2>&1 || { echo "no origin/main to compare with"; exit 0; }; \
		$(BIN)/towncrier check --compare-with origin/main || echo "consider one: see newsfragments/README.md"

format: dev ## let ruff format, and fix what it can
	@$(BIN)/ruff check --fix-only $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

surface: dev ## pin the public names, and write what is made from code: references, completion, man pages
	@$(BIN)/python tests/test_surface.py --write
	@$(BIN)/python scripts/api_reference.py --write
	@$(BIN)/python -m scripts.control_reference --write
	@$(BIN)/python -m scripts.run_reference --write
	@$(BIN)/python -m scripts.page_tables --write
	@$(BIN)/python -m scripts.variable_reference --write
	@$(BIN)/python -m scripts.message_reference --write
	@$(BIN)/python -m scripts.command_files --write

picture: dev ## draw the pictures of the demo anew
	@$(BIN)/python -m scripts.picture

pins: ## resolve the dependencies anew and write requirements/
	@PYTHON='$(or $(PYTHON),python3)' scripts/pin.sh

prices: ## write the table of models' prices anew, from the package that keeps them
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
		$(or $(PYTHON),python3) -m venv "$$scratch/venv" && \
		"$$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input genai-prices && \
		"$$scratch/venv/bin/python" scripts/prices.py >"$$scratch/prices.json" && \
		cp "$$scratch/prices.json" engine/providers/models/prices.json

clean: ## remove the environment and what the tools left
	@rm -rf .venv .venv-* .venv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov build dist
