"""Runs the scripts of the interruption tests, in as many child processes as it takes: a death is an answer too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHILDREN = Path(__file__).parents[1] / "device" / "children"
HANGS_AFTER_S = 3600


class Child:
    """One of the scripts, and what its environment has beside this one's."""

    def __init__(self, script: str, **environment: str) -> None:
        self.script = script
        self.environment: Mapping[str, str] = {"PYTHONHASHSEED": "0", **environment}

    def run(self, what: str, given: str = "", *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(CHILDREN / self.script), what, *more],
            env=os.environ | self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
            check=False,
        )

    def points(self) -> list[list[Any]]:
        """Return all points, [scene, ...] each."""
        done = self.run("points")
        assert (done.returncode, done.stderr) == (0, "")
        found: list[list[Any]] = json.loads(done.stdout)
        return found

    def complaints(self, points: Sequence[list[Any]], jobs: int = 1) -> tuple[dict[str, list[str]], int]:
        """Have each of these points tried; returns what is wrong, by point, and how many were reached."""
        wrong: dict[str, list[str]] = {}
        reached = 0
        with ThreadPoolExecutor(jobs) as pool:
            for found, count in pool.map(self._complaints, [points[number::jobs] for number in range(jobs)]):
                wrong |= found
                reached += count
        return wrong, reached

    def _complaints(self, points: Sequence[list[Any]]) -> tuple[dict[str, list[str]], int]:
        """Try them in one process, and where that ends early in another one, behind the point that ended it."""
        wrong: dict[str, list[str]] = {}
        reached, left = 0, list(points)
        while left:
            done = self.run("strike", json.dumps(left))
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            tried = [one for one in answers if isinstance(one, int)]
            told = {one[0]: one for one in answers if isinstance(one, list)}
            assert tried, f"{self.script} ended with status {done.returncode} before its first point:\n{done.stderr}"
            reached += sum(one[1] for one in told.values())
            wrong |= {str(left[number]): found for number, _, found in told.values() if found}
            if tried[-1] not in told:
                wrong[str(left[tried[-1]])] = [f"status {done.returncode}: {done.stderr[-3000:]}"]
            left = left[tried[-1] + 1 :]
        return wrong, reached


def summary(wrong: Mapping[str, list[str]]) -> str:
    """Return the complaints, the most frequent first, each with the first points that led to it."""
    counted = Counter(" | ".join(found) for found in wrong.values())
    first = {what: [point for point, found in wrong.items() if " | ".join(found) == what][:5] for what in counted}
    return "\n".join(f"{count} times: {what}\n    {first[what]}" for what, count in counted.most_common())
