"""The modules and files that PyInstaller does not see by itself: what compiled modules import, and data.

A frozen program starts no child process (``vyre_driver.process.workers``), since that would be the program once more.
"""

# ruff: noqa: N999 -- PyInstaller goes by this name

from __future__ import annotations

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

_LEFT_OUT = ("vyre_driver.__pyinstaller", "vyre_driver.distributed", "vyre_driver.conformance")

datas = [
    *collect_data_files("vyre_driver", includes=["vulkan/layer/*.json", "cli/error_pages/*.md", "kompute/bundled/NOTICE"]),
    # In an editable installation they lie elsewhere.
    *((path, "vyre_driver/shaders") for path, _ in collect_data_files("vyre_driver.shaders", includes=["*.spv"])),
]
hiddenimports = [
    "vyre_driver.shaders",
    *collect_submodules("vyre_driver", filter=lambda name: not name.startswith(_LEFT_OUT), on_error="ignore"),
]
