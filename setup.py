"""Extension modules and compiled shaders; all metadata is in pyproject.toml."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.sdist import sdist

SHADERS = Path("shaders")
COMPILED = SHADERS / "compiled.json"


def compile_shaders() -> None:
    """Compile each shaders/*.comp whose text differs from the one its .spv was made of (compiled.json says which)."""
    known = json.loads(COMPILED.read_text("utf-8")) if COMPILED.exists() else {}
    made = {}
    for source in sorted(SHADERS.glob("*.comp")):
        spirv = source.with_suffix(".spv")
        made[source.name] = hashlib.sha256(source.read_bytes()).hexdigest()
        if not spirv.exists() or known.get(source.name) != made[source.name]:
            run_glslang(source, spirv)
    if made != known:
        COMPILED.write_text(json.dumps(made, indent=1) + "\n", "utf-8")


def run_glslang(source: Path, spirv: Path) -> None:
    glslang = shutil.which("glslangValidator")
    if glslang is None:
        message = (
            f"{source} has to be compiled and glslangValidator is not installed. "
            "Fix: install glslang-tools (Debian), or build from the sdist, which carries compiled shaders."
        )
        raise SystemExit(message)
    subprocess.run([glslang, "--quiet", "-V", "--target-env", "vulkan1.1", "-o", str(spirv), str(source)], check=True)


class BuildShaders(Command):
    """Compile the shaders in place; package data then picks the .spv files up."""

    description = "compile shaders/*.comp to SPIR-V"
    user_options: ClassVar[list[tuple[str, str, str]]] = []
    editable_mode = False

    def initialize_options(self) -> None: ...

    def finalize_options(self) -> None: ...

    def run(self) -> None:
        compile_shaders()

    def get_source_files(self) -> list[str]:
        return [str(source) for source in sorted(SHADERS.glob("*.comp"))]

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class BuildWithShaders(build):
    sub_commands: ClassVar = [("build_shaders", None), *build.sub_commands]


class SdistWithShaders(sdist):
    def run(self) -> None:
        compile_shaders()
        super().run()


def extension(name: str, libraries: tuple[str, ...] = ()) -> Extension:
    source = name.replace(".", "/") + ".pyx"
    return Extension(name, [source], libraries=list(libraries), extra_compile_args=["-O3", "-Wall", "-Wno-unused-function"])


setup(
    ext_modules=cythonize([extension("vyre_driver._fast"), extension("vyre_driver.vulkan._vulkan", ("dl",))]),
    cmdclass={"build": BuildWithShaders, "build_shaders": BuildShaders, "sdist": SdistWithShaders},
)
