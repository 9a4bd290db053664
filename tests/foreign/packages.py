"""Public packages that ship compute shaders, where they lie in them, and how they are had: none is copied into the repository.

Each is downloaded once into the cache folder, by pip from its index or by apt-get; what is installed already is used as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Package:
    """``name`` with its version where one is fixed; ``pattern`` finds the files with modules in them; ``how`` it is had."""

    name: str
    version: str
    licence: str
    how: str
    pattern: str


PACKAGES = (
    Package("cyllama-vulkan", "0.2.18", "MIT", "wheel", "*.libs/libggml-vulkan*.so"),
    Package("torchvulkan", "0.2.1", "MIT", "wheel", "torchvulkan/_C*.so"),
    Package("sr-vulkan", "2.1.0", "MIT", "wheel", "sr_vulkan/sr_vulkan*.so"),
    Package("mesa-vulkan-drivers", "", "MIT", "deb", "usr/lib/*/libvulkan_radeon.so"),
    Package("vulkan-validationlayers", "", "Apache-2.0", "deb", "usr/lib/*/libVkLayer_khronos_validation.so"),
)
SOURCES = (
    Package("llama_cpp_python", "0.3.36", "MIT", "sdist", "*/vendor/llama.cpp/ggml/src/ggml-vulkan/vulkan-shaders/*"),
    Package("kp", "0.9.0", "Apache-2.0", "sdist", "*/src/shaders/glsl/*.comp"),
)


def fetched(package: Package, cache: Path) -> Path:
    """Return the folder of an unpacked package, downloaded first where it is not there.

    Raises
    ------
    CalledProcessError
        If it cannot be downloaded.
    """
    folder = cache / f"{package.name}-{package.version}".rstrip("-")
    if (folder / ".whole").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    {"wheel": _fetch_wheel, "sdist": _fetch_sdist, "deb": _fetch_deb}[package.how](package, folder)
    (folder / ".whole").touch()
    return folder


def _pip(folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *options]
    subprocess.run(command, check=True, timeout=900)


def _fetch_wheel(package: Package, folder: Path) -> None:
    _pip(folder, "--only-binary", ":all:", f"{package.name}=={package.version}")
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)  # noqa: S202 -- a wheel that pip has taken


def _fetch_sdist(package: Package, folder: Path) -> None:
    _pip(folder, "--no-binary", package.name, f"{package.name}=={package.version}")
    for source in folder.glob("*.tar.gz"):
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")


def _fetch_deb(package: Package, folder: Path) -> None:
    apt, unpack = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or unpack is None:
        raise FileNotFoundError("apt-get or dpkg-deb")
    subprocess.run([apt, "download", package.name], check=True, cwd=folder, timeout=300, capture_output=True)
    for archive in folder.glob("*.deb"):
        subprocess.run([unpack, "-x", str(archive), str(folder)], check=True, timeout=300)


def version_of(package: Package, folder: Path) -> str:
    """Return the version of what was fetched."""
    if package.version:
        return package.version
    return next(folder.glob("*.deb")).name.split("_")[1].replace("%3a", ":")
