"""What a benchmark is compared with, in a process of its own."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class PeerProcess:
    """A program that answers each line with microseconds, below 0 for what it cannot do."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def read(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout else ""

    def measure(self, line: str) -> float:
        if self._process.stdin is None:
            raise AssertionError("the process was started with pipes")
        print(line, file=self._process.stdin, flush=True)
        return float(self.read())

    def contenders(self, name: str, lines: list[str]) -> dict[str, Callable[[], float]]:
        """Return a contender for each line that it can do."""
        able = [line for line in lines if self.measure(line) >= 0]
        return {f"{name}: {line}": lambda line=line: self.measure(line) for line in able}  # type: ignore[misc]

    def close(self) -> None:
        """End it, and wait for that."""
        self._process.communicate()
