"""Run every program of the gallery, and keep its picture and what it printed in docs/gallery.

Run it (``python docs/site/draw_gallery.py``) after a program has changed. The site's pages show what lies there, so that
building them needs no device.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "gallery"
PROGRAMS = [one for one in sorted((ROOT / "examples" / "gallery").glob("*.py")) if one.stem not in {"checked", "picture"}]
_SIDE = 320  # pixels
_TOLD = re.compile(
    r"(?P<what>.*): equal to numpy\. (?P<device>.*) (?P<ms>[\d.]+) ms \(first (?P<first_ms>[\d.]+)\), "
    r"numpy (?P<numpy_ms>[\d.]+) ms"
)


def main() -> None:
    """Run them one after the other."""
    KEPT.mkdir(exist_ok=True)
    runs = {}
    for program in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, program], cwd=folder, check=True, capture_output=True, text=True)
            told = next(found for line in done.stdout.splitlines() if (found := _TOLD.match(line)))
            runs[program.stem] = {**told.groupdict(), **{name: float(told[name]) for name in ("ms", "first_ms", "numpy_ms")}}
            for picture in Path(folder).glob("*.png"):
                _keep(picture, KEPT / f"{program.stem}.png")
        print(done.stdout, end="")
    (KEPT / "runs.json").write_text(json.dumps(runs, indent=1) + "\n", "utf-8")


def _keep(picture: Path, kept: Path) -> None:
    """Keep a picture small: at most 320 pixels a side and 64 colours, which is enough to be looked at."""
    with Image.open(picture) as opened:
        small = opened.convert("RGB")
        small.thumbnail((_SIDE, _SIDE), Image.Resampling.LANCZOS)
        small.quantize(64, dither=Image.Dither.NONE).save(kept, optimize=True)


if __name__ == "__main__":
    main()
