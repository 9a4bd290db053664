.DEFAULT_GOAL := help
.PHONY: help setup demo test stress check conform sanitize fuzz foreign clean

help:  ## list the targets
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/make \1\t\2/p' Makefile | expand -t 14

setup:  ## make .venv: system packages, kp, the project and its tools (does nothing when nothing changed)
	@scripts/setup

demo: setup  ## run the demonstration; its pictures and report go to build/demo
	.venv/bin/vyre-driver demo --out-dir build/demo

test: check  ## check, then run the tests
	VYRE_REQUIRE=$${VYRE_REQUIRE-device,validation,extras} .venv/bin/python -m pytest

stress: setup  ## run the tests that take minutes
	.venv/bin/python -m pytest tests/stress

conform: setup  ## 20,000 random programs on every backend against the reference; goes on where it was stopped
	mkdir -p build
	.venv/bin/vyre-driver conform --backend cpu-ref --count 20000 --subgroups --batch 500 --journal build/conform-cpu-ref.jsonl
	.venv/bin/vyre-driver conform --backend kompute --count 20000 --batch 500 --journal build/conform-kompute.jsonl

check: setup  ## formatting, lint, types
	.venv/bin/ruff format --check && .venv/bin/ruff check
	.venv/bin/mypy
	PATH="$(CURDIR)/.venv/bin:$$PATH" cython-lint vyre_driver  # it looks for its pycodestyle on PATH

sanitize: setup  ## run the C layer under the sanitizers and valgrind, which must be installed
	.venv/bin/python tests/sanitize/run.py

fuzz: setup  ## hostile containers and modules, ten minutes each (with atheris where it is installed), the C table for five
	.venv/bin/python tests/fuzz/fuzz_wire.py 600
	.venv/bin/python tests/fuzz/fuzz_spirv.py 600
	.venv/bin/python tests/fuzz/fuzz_c_table.py 300

foreign: setup  ## download public packages with compute shaders to build/foreign, reflect and run what they ship
	VYRE_ALLOW_SOFTWARE=1 VYRE_ROBUST_ACCESS=1 .venv/bin/python tests/foreign/survey.py build/foreign

clean:  ## remove .venv and everything that was built
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f shaders/*.spv shaders/compiled.json $(patsubst %.pyx,%.c,$(shell find vyre_driver -name '*.pyx'))
	find vyre_driver shaders tests \( -name __pycache__ -o -name '*.so' \) -prune -exec rm -rf {} +
