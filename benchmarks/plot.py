"""Lines in a plot, as SVG: a few numbers are no reason for a plotting library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

__all__ = ["svg"]

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 40, 50
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_TICKS = 5


def svg(
    lines: Mapping[str, Sequence[float]],
    *,
    at: Sequence[float],
    title: str,
    x_label: str,
    y_label: str,
) -> str:
    """A plot of `lines`, each with a value for every one of `at`, from 0 on both axes."""
    most_x, most_y = max(at), max((max(values) for values in lines.values()), default=0.0) or 1.0
    area_w, area_h = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(value: float) -> float:
        return round(_LEFT + value / most_x * area_w, 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / most_y * area_h, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_WIDTH / 2, 22, title, size=14),
        _text(_WIDTH / 2, _HEIGHT - 12, x_label),
        f'<g transform="translate(16 {_HEIGHT / 2}) rotate(-90)">{_text(0, 0, y_label)}</g>',
    ]
    for number in range(_TICKS + 1):
        share = number / _TICKS
        parts += [
            f'<path d="M{_LEFT} {y(share * most_y)}H{_WIDTH - _RIGHT}" stroke="#ddd"/>',
            _text(_LEFT - 8, y(share * most_y) + 4, _number(share * most_y), anchor="end"),
            _text(x(share * most_x), _HEIGHT - _BOTTOM + 18, _number(share * most_x)),
        ]
    for number, (name, values) in enumerate(lines.items()):
        colour, dash = _COLOURS[number % 4], _DASHES[number % 4]
        points = " ".join(f"{x(a)},{y(b)}" for a, b in zip(at, values, strict=True))
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        key = _TOP + 14 + 18 * number
        parts += [
            f'<polyline points="{points}" {style}/>',
            f'<path d="M{_LEFT + 12} {key - 4}h28" {style}/>',
            _text(_LEFT + 48, key, name, anchor="start"),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:.3g}"
