"""A step of a pipeline as a picture: a row a rank, a box an action, hatched where ranks wait. A pure function."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

FONT = "font-family='Helvetica, Arial, sans-serif'"
COLOURS = {"F": "#4e79c4", "B": "#e8873a", "I": "#f0a95e", "W": "#5aa469"}
"""Of the boxes, by kind of action."""
WORDS = {"F": "forward", "B": "backward", "I": "backward for the input", "W": "backward for the weights"}
_LEFT, _TOP, _WIDTH, _GAP = 92, 78, 1180, 6
_LABEL_WIDTH = 6.2
"""Pixels of a letter of a label."""
_TICKS = 8


@dataclass(frozen=True, slots=True)
class Box:
    """One action; seconds from the begin of the picture."""

    row: int
    kind: str
    """`F`, `B`, `I` or `W`."""
    stage: int
    microbatch: int
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """One stretch in which a rank waits."""

    row: int
    begin_s: float
    end_s: float
    why: str
    """For what in the end: `stage 3`, `link`, `host`; "" if that is not known."""


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn."""

    title: str
    subtitle: str
    rows: tuple[str, ...]
    """Names of the ranks, from top to bottom."""
    boxes: tuple[Box, ...]
    waits: tuple[Wait, ...]
    several: bool
    """Whether a rank has several stages, so that boxes name theirs."""

    @property
    def length_s(self) -> float:
        """Seconds from the left to the right edge."""
        ends = [box.end_s for box in self.boxes] + [wait.end_s for wait in self.waits]
        return max(ends, default=0.0) or 1.0


def render(picture: Picture) -> str:
    """The picture as SVG; the same picture gives the same text."""
    height = _row_height(len(picture.rows))
    bottom = _TOP + len(picture.rows) * (height + _GAP)
    width, whole = _LEFT + _WIDTH + 24, bottom + 40
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{whole}' viewBox='0 0 {width} {whole}'>",
        "<defs><pattern id='wait' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
        "<rect width='6' height='6' fill='#f7e3e3'/><rect width='2' height='6' fill='#d98a8a'/></pattern></defs>",
        f"<rect width='{width}' height='{whole}' fill='#ffffff'/>",
        _text(16, 26, picture.title, 16, "#222222", weight="bold"),
        _text(16, 46, picture.subtitle, 12, "#555555"),
        *_legend(picture, width),
        *_axis(picture, bottom),
    ]
    scale = _WIDTH / picture.length_s
    for number, name in enumerate(picture.rows):
        y = _TOP + number * (height + _GAP)
        parts.append(f"<rect x='{_LEFT}' y='{y}' width='{_WIDTH}' height='{height}' fill='#f4f4f6'/>")
        parts.append(_text(_LEFT - 8, y + height / 2 + 4, name, 12, "#222222", anchor="end"))
    parts += [_wait(wait, scale, height) for wait in picture.waits]
    parts += [_box(box, scale, height, picture.several) for box in picture.boxes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row_height(rows: int) -> int:
    return 38 if rows <= 8 else 26 if rows <= 24 else 14


def _legend(picture: Picture, width: int) -> list[str]:
    kinds = [kind for kind in COLOURS if any(box.kind == kind for box in picture.boxes)]
    entries = [(COLOURS[kind], WORDS[kind]) for kind in kinds]
    entries += [("url(#wait)", "waiting, with its root cause")] if picture.waits else []
    parts, x = [], float(width - 24)
    for fill, words in reversed(entries):
        x -= len(words) * 6.0 + 30
        parts.append(f"<rect x='{x:.1f}' y='16' width='12' height='12' rx='2' fill='{fill}' stroke='#888888'/>")
        parts.append(_text(x + 17, 26, words, 11, "#444444"))
    return parts


def _axis(picture: Picture, bottom: int) -> list[str]:
    step = _tick_s(picture.length_s)
    parts = []
    for tick in range(int(picture.length_s / step + 1e-9) + 1):
        x = _LEFT + tick * step * _WIDTH / picture.length_s
        parts.append(f"<line x1='{x:.1f}' y1='{_TOP - 6}' x2='{x:.1f}' y2='{bottom}' stroke='#dddddd'/>")
        parts.append(_text(x, bottom + 16, f"{tick * step * 1e3:.4g} ms", 11, "#666666", anchor="middle"))
    return parts


def _tick_s(length_s: float) -> float:
    """Seconds between two ticks: 1, 2 or 5 times a power of ten."""
    power = 1e-9
    while True:
        for factor in (1, 2, 5):
            if length_s / (power * factor) <= _TICKS:
                return power * factor
        power *= 10


def _box(box: Box, scale: float, height: int, several: bool) -> str:
    x, y = _LEFT + box.begin_s * scale, _TOP + box.row * (height + _GAP)
    width = max((box.end_s - box.begin_s) * scale, 0.5)
    label = f"{box.stage}{box.kind}{box.microbatch}" if several else f"{box.kind}{box.microbatch}"
    says = (
        f"{WORDS[box.kind]}, stage {box.stage}, microbatch {box.microbatch}: {(box.end_s - box.begin_s) * 1e3:.3g} ms"
    )
    shape = (
        f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{height}' rx='2' fill='{COLOURS[box.kind]}' "
        "stroke='#ffffff' stroke-width='0.8'/>"
    )
    text = ""
    size = 11 if width >= len(label) * _LABEL_WIDTH + 6 else 9
    if width >= len(label) * _LABEL_WIDTH * size / 11 + 1:
        text = _text(x + width / 2, y + height / 2 + 4, label, size, "#ffffff", anchor="middle")
    return f"<g><title>{escape(says)}</title>{shape}{text}</g>"


def _wait(wait: Wait, scale: float, height: int) -> str:
    x, y = _LEFT + wait.begin_s * scale, _TOP + wait.row * (height + _GAP)
    width = (wait.end_s - wait.begin_s) * scale
    says = f"waits {(wait.end_s - wait.begin_s) * 1e3:.3g} ms" + (f" for {wait.why}" if wait.why else "")
    shape = f"<rect x='{x:.1f}' y='{y}' width='{max(width, 0.3):.1f}' height='{height}' fill='url(#wait)'/>"
    text = ""
    if wait.why and width >= len(wait.why) * _LABEL_WIDTH + 6:
        back = len(wait.why) * 5.6 + 6
        middle = x + width / 2
        text = (
            f"<rect x='{middle - back / 2:.1f}' y='{y + height / 2 - 8:.1f}' width='{back:.1f}' height='15' rx='3' "
            "fill='#ffffff' fill-opacity='0.85'/>"
        ) + _text(middle, y + height / 2 + 4, wait.why, 10.5, "#a03030", anchor="middle")
    return f"<g><title>{escape(says)}</title>{shape}{text}</g>"


def _text(
    x: float, y: float, words: str, size: float, fill: str, *, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' font-weight='{weight}' fill='{fill}' "
        f"text-anchor='{anchor}'>{escape(words)}</text>"
    )
