"""Small pictures for a page that may load nothing: palette PNG by zlib alone.

Written by hand because it takes a screenful: an imaging library would be one more dependency to keep safe,
and a palette of a few colours is all that is drawn here.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np


def palette_png(pixels: np.ndarray, palette: np.ndarray) -> bytes:
    """Encode a picture of palette colours as PNG (8 bit, colour type 3).

    `pixels`, shape (height, width): positions in the palette; position 0 is drawn transparent.
    `palette`, shape (n_colours, 3): at most 256 colours, red, green, blue.
    The same picture gives the same bytes.
    """
    if pixels.ndim != 2 or pixels.dtype != np.uint8 or not pixels.size:
        raise ValueError(f"pixels must be uint8 of shape (height, width), got {pixels.dtype} {pixels.shape}")
    if palette.ndim != 2 or palette.shape[1] != 3 or not int(pixels.max()) < len(palette) <= 256:
        raise ValueError(f"palette {palette.shape} does not hold colour {pixels.max()}")
    height, width = pixels.shape
    # Every line begins with its filter, 0: none.
    lines = np.zeros((height, width + 1), dtype=np.uint8)
    lines[:, 1:] = pixels
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"tRNS", b"\x00"),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def as_text(picture: bytes) -> str:
    """A picture in base64, as run.json keeps it."""
    return base64.b64encode(picture).decode("ascii")


def ramp(anchors: list[tuple[int, int, int]], steps: int) -> np.ndarray:
    """Colours between anchors in equal steps, shape (steps, 3)."""
    at, along = np.linspace(0, len(anchors) - 1, steps), np.arange(len(anchors))
    rgb = [np.interp(at, along, [anchor[i] for anchor in anchors]) for i in range(3)]
    return np.rint(np.column_stack(rgb)).astype(np.uint8)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
