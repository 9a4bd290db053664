"""Pictures for the notebooks, made with nothing that has to be installed: PNG from pixels, SVG from bars."""

import struct
import zlib

import numpy as np
from IPython.display import SVG, Image

COLOURS = ["#2f6fd0", "#e07a3f", "#2ca58d", "#8e5ea2"]


def picture(values):
    """Show an array of two axes in colours: dark blue for the least, over red, to pale yellow for the greatest."""
    low, high = values.min(), values.max()
    at = (values - low) / (high - low or 1)
    stops = [(10, 10, 50), (90, 20, 110), (200, 60, 70), (250, 160, 40), (255, 250, 200)]
    channels = [np.interp(at, np.linspace(0, 1, len(stops)), [stop[channel] for stop in stops]) for channel in range(3)]
    pixels = np.stack(channels, axis=-1).astype(np.uint8)
    height, width = values.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # each begins with 0: no filter

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return Image(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""), format="png"
    )


def bars(lanes, unit, scale=1.0):
    """Show rows of bars: ``lanes`` is a list of (name, [(start, end, colour), ...]), ``scale`` what a number is in units."""
    first = min(start for _, parts in lanes for start, _, _ in parts)
    last = max(end for _, parts in lanes for _, end, _ in parts)
    left, width, height = 170, 560, 22
    parts = []
    for number, (name, spans) in enumerate(lanes):
        y = 8 + number * height
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{name}</text>')
        for start, end, colour in spans:
            x, long = left + width * (start - first) / (last - first), width * (end - start) / (last - first)
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 2}" width="{max(long, 1):.1f}" height="{height - 6}" fill="{COLOURS[colour]}"/>'
            )
    bottom = 8 + len(lanes) * height
    span = (last - first) * scale
    step = next(one for one in (10.0**p * n for p in range(-9, 12) for n in (1, 2, 5)) if span / one <= 6)
    ticks = [(left + width * at / span, f"{at:g} {unit}") for at in np.arange(0, span, step)]
    parts += [f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>' for x, label in ticks]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{bottom + 24}"'
    return SVG(f'{head} font-family="sans-serif" font-size="12" fill="#777">{"".join(parts)}</svg>')
