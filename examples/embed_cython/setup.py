"""A Cython extension that calls vyre_driver's kernels as C functions."""

import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# -E: what pip builds in isolation does not see what is installed, because of PYTHONPATH. The header and the
# declarations of what this will run with are wanted, and no others from an index.
ask = "import vyre_driver; print(vyre_driver.get_include())"
asked = subprocess.run([sys.executable, "-E", "-c", ask], capture_output=True, text=True, check=False)
if asked.returncode:
    why = (asked.stderr.splitlines() or [""])[-1]
    fix = "Fix: pip install vyre_driver there; if it is, and this builds elsewhere: --no-build-isolation."
    raise SystemExit(f"vyre_driver.h cannot be found with {sys.executable} ({why}). {fix}")

include = Path(asked.stdout.strip())
extension = Extension("embed_cython", ["embed_cython.pyx"], include_dirs=[str(include)])
# What lies beside the package, where `cimport vyre_driver._fast` finds its .pxd.
setup(ext_modules=cythonize([extension], include_path=[str(include.parents[1])]))
