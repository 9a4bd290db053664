"""A C extension that plans, checks and keys dispatches through vyre_driver's C table."""

import subprocess
import sys

from setuptools import Extension, setup

# -E: what pip builds in isolation does not see what is installed, because of PYTHONPATH. The header of what this will run with
# is wanted, and no other from an index.
ask = "import vyre_driver; print(vyre_driver.get_include())"
asked = subprocess.run([sys.executable, "-E", "-c", ask], capture_output=True, text=True, check=False)
if asked.returncode:
    why = (asked.stderr.splitlines() or [""])[-1]
    fix = "Fix: pip install vyre_driver there; if it is, and this builds elsewhere: --no-build-isolation."
    raise SystemExit(f"vyre_driver.h cannot be found with {sys.executable} ({why}). {fix}")

setup(ext_modules=[Extension("embed_c", ["embed_c.c"], include_dirs=[asked.stdout.strip()], extra_compile_args=["-std=c11"])])
