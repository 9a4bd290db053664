"""What host and device did during a stream, as an SVG picture."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from unittest import mock

from vyre_driver.kompute import overlap
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from pathlib import Path

_LANES = ("host copies in", "host copies out", "host waits", "submission, even", "submission, odd")
_COLOURS = ("#3b7dd8", "#2ca58d", "#c9c9c9", "#e07a3f", "#b5542a")
_LEFT, _WIDTH, _HEIGHT, _GAP = 130, 1100, 26, 8


class Timeline:
    """Watches the streams of a block: the host's copies and waits, and each submission until the host has seen its end.

    Where a submission ends before the host asks, its bar is too long by the time until then.
    """

    def __init__(self, title: str) -> None:
        """Have seen nothing."""
        self.title = title
        self.bars: list[tuple[int, int, int]] = []  # lane, begin and end in ns
        self._submitted: list[int] = []
        self._ended = 0

    def __enter__(self) -> Timeline:
        """Watch from now on."""
        copy, submit, wait = _layer.copy_spans, overlap.Overlap._submit, overlap.Overlap._wait  # noqa: SLF001 -- to be watched
        started = overlap.Overlap.start
        inside: list[bool] = []

        def watched_start(one: Any, load: Any) -> None:
            inside.append(True)
            try:
                started(one, load)
            finally:
                inside.pop()

        def watched_copy(pairs: Any) -> None:
            pairs = list(pairs)
            began = time.perf_counter_ns()
            copy(pairs)
            if pairs:
                self.bars.append((0 if inside else 1, began, time.perf_counter_ns()))

        def watched_submit(*given: Any) -> Any:
            made = submit(*given)
            if made is not None:
                self._submitted.append(time.perf_counter_ns())
            return made

        def watched_wait(one: Any, submitted: Any, deadline: Any) -> None:
            began = time.perf_counter_ns()
            wait(one, submitted, deadline)
            ended = time.perf_counter_ns()
            if submitted is not None:
                self.bars.append((2, began, ended))
                self.bars.append((3 + self._ended % 2, self._submitted[self._ended], ended))
                self._ended += 1

        self._patches = [
            mock.patch.object(_layer, "copy_spans", watched_copy),
            mock.patch.object(overlap.Overlap, "start", watched_start),
            mock.patch.object(overlap.Overlap, "_submit", watched_submit),
            mock.patch.object(overlap.Overlap, "_wait", watched_wait),
        ]
        for one in self._patches:
            one.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """Watch no more."""
        for one in self._patches:
            one.stop()

    def draw(self, path: Path) -> None:
        """Write the picture."""
        first, last = min(bar[1] for bar in self.bars), max(bar[2] for bar in self.bars)
        scale = _WIDTH / (last - first)
        bottom = 40 + len(_LANES) * (_HEIGHT + _GAP)
        size = f'width="{_LEFT + _WIDTH + 20}" height="{bottom + 30}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="10" y="20" font-size="14">{self.title}: {(last - first) / 1e6:.1f} ms</text>',
        ]
        for lane, name in enumerate(_LANES):
            parts.append(f'<text x="10" y="{40 + lane * (_HEIGHT + _GAP) + 17}">{name}</text>')
        for lane, began, ended in self.bars:
            x, width = _LEFT + (began - first) * scale, max(0.5, (ended - began) * scale)
            y = 40 + lane * (_HEIGHT + _GAP)
            size = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT}"'
            parts.append(f'<rect {size} fill="{_COLOURS[lane]}" stroke="white" stroke-width="0.4"/>')
        for tenth in range(11):
            x = _LEFT + _WIDTH * tenth / 10
            parts.append(f'<text x="{x:.0f}" y="{bottom + 15}" text-anchor="middle">{(last - first) * tenth / 1e7:.1f}</text>')
        path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
