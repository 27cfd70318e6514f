"""Lines in a plot, as SVG: a few numbers are no reason for a plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

__all__ = ["svg", "ticks"]

_WIDTH, _HEIGHT = 640, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 40, 50
_COLOURS = ("#999999", "#1f77b4", "#9467bd", "#d62728", "#2ca02c")
_DASHES = ("2 3", "", "8 3 2 3", "6 3", "3 2")
_TICKS = 5  # at least, on an axis


def ticks(most: float) -> list[float]:
    """Round numbers from 0 up to at least `most`: steps of 1, 2 or 5 times a power of ten."""
    scale = 10.0 ** math.floor(math.log10(most / _TICKS))
    step = max(scale * factor for factor in (1, 2, 5) if scale * factor * _TICKS <= most)
    return [number * step for number in range(math.ceil(round(most / step, 9)) + 1)]


def svg(
    lines: Mapping[str, Sequence[float]],
    *,
    at: Sequence[float],
    title: str,
    x_label: str,
    y_label: str,
) -> str:
    """A plot of `lines`, each with a value for every one of `at`, from 0 on both axes."""
    most_y = max((max(values) for values in lines.values()), default=0.0) or 1.0
    xs, ys = ticks(max(at)), ticks(most_y)

    def x(value: float) -> float:
        return round(_LEFT + value / xs[-1] * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / ys[-1] * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_WIDTH / 2, 22, title, size=14),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, x_label),
        f'<g transform="translate(16 {_HEIGHT / 2}) rotate(-90)">{_text(0, 0, y_label)}</g>',
    ]
    for value in ys:
        parts += [
            f'<path d="M{_LEFT} {y(value)}H{_WIDTH - _RIGHT}" stroke="#ddd"/>',
            _text(_LEFT - 8, y(value) + 4, f"{value:g}", anchor="end"),
        ]
    for value in xs:
        parts += [
            f'<path d="M{x(value)} {_HEIGHT - _BOTTOM}v5" stroke="#888"/>',
            _text(x(value), _HEIGHT - _BOTTOM + 18, f"{value:g}"),
        ]
    for number, (name, values) in enumerate(lines.items()):
        places = [(x(a), y(b)) for a, b in zip(at, values, strict=True)]
        parts += _line(number, name, places)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(number: int, name: str, places: Sequence[tuple[float, float]]) -> Iterator[str]:
    """A line with a dot for each value, and its entry in the key."""
    colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
    points = " ".join(f"{across},{up}" for across, up in places)
    style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
    key = _TOP + 14 + 18 * number
    yield f'<polyline points="{points}" {style}/>'
    for across, up in places:
        yield f'<circle cx="{across}" cy="{up}" r="3" fill="{colour}"/>'
    yield f'<path d="M{_LEFT + 12} {key - 4}h28" {style}/>'
    yield _text(_LEFT + 48, key, name, anchor="start")


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
    )
