"""Pictures of the gallery's results, written as PNG with nothing but zlib."""

import struct
import zlib
from pathlib import Path

import numpy as np


def write_png(path, pixels):
    """Write a picture: an array of u8, (height, width) for grey or (height, width, 3) for colours."""
    pixels = np.ascontiguousarray(pixels, np.uint8)
    height, width = pixels.shape[:2]
    kind = 2 if pixels.ndim == 3 else 0
    rows = np.zeros((height, 1 + pixels.nbytes // height), np.uint8)  # each begins with 0: no filter
    rows[:, 1:] = pixels.reshape(height, -1)
    with Path(path).open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)))
        file.write(_chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)))
        file.write(_chunk(b"IEND", b""))
    print(f"picture: {path}")


def coloured(values):
    """Return numbers as colours: dark blue for the least, over red, to pale yellow for the greatest."""
    values = np.asarray(values, np.float64)
    low, high = values.min(), values.max()
    at = (values - low) / (high - low or 1.0)
    stops = [(10, 10, 50), (90, 20, 110), (200, 60, 70), (250, 160, 40), (255, 250, 200)]
    channels = [np.interp(at, np.linspace(0, 1, len(stops)), [stop[channel] for stop in stops]) for channel in range(3)]
    return np.stack(channels, axis=-1)


def dots(points, values, side):
    """Return a picture of points in the unit square, each with a colour for its value."""
    pixels = np.full((side, side, 3), 10.0)
    at = np.clip((np.asarray(points)[:, :2] * side).astype(int), 0, side - 1)
    pixels[at[:, 1], at[:, 0]] = coloured(values)
    return pixels


def _chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
