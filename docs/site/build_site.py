"""Build the documentation in build/site: ``make docs``. Nothing is fetched but the tools, once; each warning is an error."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, OUT = ROOT / "build" / "site-source", ROOT / "build" / "site"


def missing_tools() -> list[str]:
    """Return the requirements of the extra ``docs`` that are not installed."""
    wanted = (ROOT / "pyproject.toml").read_text("utf-8").partition("\ndocs = [")[2].partition("]")[0]
    return [one for one in re.findall(r'"([^"]+)"', wanted) if not _is_installed(re.split(r"[<>=~!; ]", one)[0])]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def main() -> int:
    """Install what is missing, put the sources together, and build."""
    started = time.monotonic()
    missing = missing_tools()
    if missing:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], check=True)
    sys.path.insert(0, str(ROOT))  # for benchmarks
    from built_links import broken_links
    from staging import stage

    stage(ROOT, SOURCE)
    sphinx = [
        sys.executable,
        "-m",
        "sphinx",
        "--builder",
        "html",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "--jobs",
        "2",
    ]
    shutil.rmtree(OUT, ignore_errors=True)  # Sphinx leaves pages that are gone, and navigation that has changed
    command = [
        *sphinx,
        "--fresh-env",
        "--conf-dir",
        ROOT / "docs" / "site",
        "--doctree-dir",
        ROOT / "build" / "site-doctrees",
        SOURCE,
        OUT,
    ]
    status = subprocess.run(command, check=False, cwd=ROOT).returncode
    broken = broken_links(OUT)
    for one in broken:
        print(one, file=sys.stderr)
    if status or broken:
        return 1
    print(f"build/site/index.html: {len(list(OUT.rglob('*.html')))} pages in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
