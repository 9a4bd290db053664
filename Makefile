.DEFAULT_GOAL := help
# Else every worker, and every process that a test starts, would compile anew all that it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup format demo docs test check-all quick stress remote-stress fleet-stress check conform kernels printed sanitize fuzz foreign vendors mesa wheels rooms clean

, := ,
PYTEST = .venv/bin/python -m pytest
# A worker that dies ends the run: what takes its place would wait for files for ever (pytest-xdist 3.8).
SIDE_BY_SIDE = -n auto --maxprocesses 8 --dist loadfile --max-worker-restart=0

# Files in the order of their names, those of tests/unit last: by the number of tests, the longest would run last, alone.
SIDE_BY_SIDE += --no-loadscope-reorder
# Only these are read for the tests that have to be alone: reading all takes as long as running those.
ALONE = $(shell grep -rl 'mark\.alone' tests --include='test_*.py' --exclude-dir=stress)
MATRICES = $(shell grep -rl 'mark\.matrices' tests --include='test_*.py' --exclude-dir=stress)

# $(1): what may not be missing, $(2): which tests. First side by side, then those that have to be alone, then those of matrices
# on the lavapipe of `make mesa`, where it is.
define run_tests
@export VYRE_REQUIRE=$${VYRE_REQUIRE-$(1)}; \
$(PYTEST) $(SIDE_BY_SIDE) --durations 30 -m "not alone $(2)"; side_by_side=$$?; \
$(PYTEST) -m "alone $(2)" $(ALONE); alone=$$?; \
.venv/bin/python scripts/mesa.py --kept; matrices=$$?; \
if [ $$matrices = 0 ]; then \
VYRE_REQUIRE=$$VYRE_REQUIRE,matrices .venv/bin/python-mesa -m pytest -n auto --maxprocesses 8 -m "matrices $(2)" $(MATRICES); matrices=$$?; \
elif [ $$matrices = 3 ]; then matrices=0; fi; \
exit $$((side_by_side ? side_by_side : alone ? alone : matrices))
endef

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/make \1\t\2/p' Makefile | expand -t 14

setup:  ## make .venv: system packages, kompute, the project and its tools (compiles only what has changed)
	@scripts/setup

format: setup  ## lay out the Python code as `make check` wants it, and mend what ruff can
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

demo:  ## run the demonstration; its pictures and report go to build/demo
	@scripts/setup demo
	.venv/bin/vyre-driver demo --out-dir build/demo

docs: setup  ## build the documentation in build/site; a warning or a broken link is an error
	.venv/bin/python docs/site/build_site.py

# What Mesa and the compiler of GLSL made is kept for the next run, under keys of the shader and of the compiler. check-all starts without.
test: export MESA_SHADER_CACHE_DIR ?= $(CURDIR)/build/mesa-shaders
test: export TESTS_GLSL_DIR ?= $(CURDIR)/build/glsl
test: check  ## check, then run all tests but costly twins and packages: about a quarter of an hour on 2 cores
	$(call run_tests,device$(,)validation$(,)extras$(,)redis,and not packaging and not thorough)

check-all: check mesa  ## check, then run every test but those of `make stress`; before a release run both
	$(call run_tests,device$(,)packaging$(,)validation$(,)extras$(,)redis,)

quick: check  ## check, then run the tests that need neither a device nor minutes
	$(PYTEST) $(SIDE_BY_SIDE) -m "not device and not thorough" tests/unit tests/golden tests/arch

stress: setup  ## run the tests that take minutes
	$(PYTEST) tests/stress

remote-stress: setup  ## three minutes of harm to a shared cache and to the processes that use it (also in `make stress`)
	$(PYTEST) -s tests/stress/test_stress_remote.py

fleet-stress: setup  ## three minutes of tasks on four workers that are killed every two seconds (also in `make stress`)
	$(PYTEST) -s tests/stress/test_stress_fleet.py

conform: setup  ## 20,000 random programs on every backend, a process a core
	.venv/bin/vyre-driver conform --backend cpu-ref --count 20000 --jobs $$(nproc)
	.venv/bin/vyre-driver conform --backend kompute --count 20000 --jobs $$(nproc)

kernels: setup  ## 5,000 random kernels, translated and run as programs, as plain Python, and on the best device
	.venv/bin/python tests/lang/test_random_kernels.py 5000
	VYRE_ALLOW_SOFTWARE=1 .venv/bin/python tests/lang/test_random_kernels_on_device.py 100 5000 $$(nproc)

printed: setup  ## 20,000 random programs printed as Python and translated back: equal digests, equal results
	.venv/bin/python tests/lang/test_printed_programs.py 0 20000 $$(nproc)

check: setup  ## formatting, lint, types
	.venv/bin/ruff format --check && .venv/bin/ruff check
	.venv/bin/mypy
	PATH="$(CURDIR)/.venv/bin:$$PATH" cython-lint vyre_driver  # it looks for its pycodestyle on PATH

sanitize: setup  ## run the C layer under the sanitizers and valgrind, which must be installed
	.venv/bin/python tests/sanitize/run.py

fuzz: setup  ## hostile containers, artifacts and modules, ten minutes each (with atheris where it is installed), the C table for five
	.venv/bin/python tests/fuzz/fuzz_wire.py 600
	.venv/bin/python tests/fuzz/fuzz_artifacts.py 600
	.venv/bin/python tests/fuzz/fuzz_spirv.py 600
	.venv/bin/python tests/fuzz/fuzz_c_table.py 300

foreign: setup  ## download public packages with compute shaders to build/foreign, reflect and run what they ship
	VYRE_ALLOW_SOFTWARE=1 VYRE_ROBUST_ACCESS=1 .venv/bin/python tests/foreign/survey.py build/foreign

vendors: setup  ## compile for AMD's devices without one, and test on a device as weak as Vulkan allows
	.venv/bin/python tests/vendors/run.py

mesa: setup  ## fetch a newer lavapipe, for tests of cooperative matrices: 63 MB of Debian packages, which nothing installs
	@.venv/bin/python scripts/mesa.py $(ARGS)

wheels:  ## manylinux wheels with kompute in them for every Python found, and their SBOM, in dist (ARGS: scripts/wheels.py --help)
	$${PYTHON:-python3} scripts/wheels.py $(ARGS)

rooms:  ## as root: install, build, run and test in fresh Debian and Ubuntu roots, for hours (ARGS: scripts/rooms.py --help)
	$${PYTHON:-python3} scripts/rooms.py $(ARGS)

clean:  ## remove .venv and everything that was built
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f vyre_driver/kompute/bundled/NOTICE shaders/*.spv shaders/compiled.json $(patsubst %.pyx,%.c,$(shell find vyre_driver -name '*.pyx'))
	find vyre_driver shaders tests \( -name __pycache__ -o -name '*.so' \) -prune -exec rm -rf {} +
