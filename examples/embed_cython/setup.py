"""A Cython extension that calls vyre_driver's kernels as C functions."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import vyre_driver

setup(ext_modules=cythonize([Extension("embed_cython", ["embed_cython.pyx"], include_dirs=[vyre_driver.get_include()])]))
