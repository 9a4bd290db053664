"""A C extension that plans, checks and keys dispatches through vyre_driver's C table."""

from setuptools import Extension, setup

import vyre_driver

setup(
    ext_modules=[Extension("embed_c", ["embed_c.c"], include_dirs=[vyre_driver.get_include()], extra_compile_args=["-std=c11"])]
)
