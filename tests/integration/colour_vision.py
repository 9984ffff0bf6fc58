"""How far apart two colours look, also to those who see no red or no green."""

from __future__ import annotations

__all__ = ["least_difference"]

import math
from itertools import combinations

# Machado, Oliveira and Fernandes, 2009: a physiologically-based model for simulation of color
# vision deficiency, severity 1.0, for linear RGB.
SIGHTS = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
_TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
_WHITE = (0.95047, 1.0, 1.08883)

Triple = tuple[float, float, float]


def least_difference(colours: dict[str, Triple]) -> tuple[float, str, str, str]:
    """Return the least CIEDE2000 of any two colours (sRGB, 0 to 255), to whom, and which two."""
    return min(
        (_ciede2000(_lab(one, sight), _lab(other, sight)), sight, first, second)
        for sight in SIGHTS
        for (first, one), (second, other) in combinations(sorted(colours.items()), 2)
    )


def _times(matrix: tuple[Triple, ...], vector: Triple) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def _lab(colour: Triple, sight: str) -> Triple:
    parts = [part / 255 for part in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    seen = [min(1.0, max(0.0, part)) for part in _times(SIGHTS[sight], linear)]
    ratios = [a / b for a, b in zip(_times(_TO_XYZ, seen), _WHITE, strict=True)]
    x, y, z = (r ** (1 / 3) if r > 216 / 24389 else (24389 / 27 * r + 16) / 116 for r in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _ciede2000(one: Triple, other: Triple) -> float:
    """Sharma, Wu and Dalal, 2005: the CIEDE2000 color-difference formula."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    grey = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(grey * a1, b1), math.hypot(grey * a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, grey * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    wave = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    light = (l2 - l1) / (1 + 0.015 * (lightness - 50) ** 2 / math.hypot(20**0.5, lightness - 50))
    colour = (c2 - c1) / (1 + 0.045 * chroma)
    tone = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * wave)
    twist = 60 * math.exp(-(((hue - 275) / 25) ** 2))
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7)) * math.sin(math.radians(twist))
    return math.sqrt(light**2 + colour**2 + tone**2 + rotation * colour * tone)
