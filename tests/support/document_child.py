"""Run blocks of documents in this process: a file of pages as JSON, what each block printed as JSON on standard output.

Each page has a folder, an environment and names of its own. A block is a file of its own, because kernels are read from files.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path


def run_page(blocks: list[dict[str, str]], folder: Path) -> list[str]:
    """Return what each block of a page printed; the last is that of the first block that failed."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = []
    for number, block in enumerate(blocks):
        path = folder / f"block{number}.py"
        path.write_text(block["code"], "utf-8")
        if block["language"] == "console":
            printed.append(_console(block["code"]))
            continue
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(block["code"], str(path), "exec"), names)  # noqa: S102 -- our own documents
        except BaseException as error:  # noqa: BLE001 -- it is shown
            printed.append(f"{out.getvalue()}{type(error).__module__}.{type(error).__qualname__}: {error}\n")
            break
        printed.append(out.getvalue())
    return printed


def _console(code: str) -> str:
    """Run the commands one after the other, up to the first that fails, whose status is printed too."""
    commands = "\n".join(line.removeprefix("$ ") for line in code.splitlines() if line.startswith("$ "))
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", commands], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout + (f"exit status {done.returncode}\n" if done.returncode else "")


def main() -> None:
    """Run the pages of the file that is named."""
    warnings.simplefilter("error")
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    pages = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    results = {}
    for name, blocks in pages.items():
        environment = dict(os.environ)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ["HOME"] = folder
            results[name] = run_page(blocks, Path(folder))
            os.chdir("/")
        os.environ.clear()
        os.environ.update(environment)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
