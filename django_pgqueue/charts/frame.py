"""Draw what surrounds the marks of a chart: the figure, its legend, axes, and a tooltip for each bucket."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from importlib.resources import files
from zlib import crc32

from django_pgqueue.charts import times as axis_of_time
from django_pgqueue.charts.scale import Scale, value_text

WIDTH_PX, HEIGHT_PX = 760, 240
# The values stand at the right, beside the newest bucket: there a narrow screen shows them. At the left there is room
# for half of the first time.
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 24, 56, 10, 36
# Control characters, and those that turn the direction of the text around them.
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def stylesheet() -> str:
    """Return the CSS of the charts: a static file for pages of Django, text for a page that stands alone."""
    return files("django_pgqueue").joinpath("static/django_pgqueue/charts.css").read_text(encoding="utf-8")


def text(value: object, longest: int | None = None) -> str:
    """Return a foreign text as safe HTML; characters that cannot be shown are replaced, a long text is cut."""
    shortened = UNPRINTABLE.sub("\ufffd", str(value))
    if longest is not None and len(shortened) > longest:
        shortened = shortened[: longest - 1] + "…"
    return escape(shortened)


def coordinate(value: float) -> str:
    """Return a coordinate as text for SVG, with one decimal place at most: ``12.5``, ``12``."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Frame:
    """Map buckets and values to coordinates; each bucket has one place."""

    times: Sequence[datetime]
    width: timedelta
    scale: Scale
    kind: str

    @property
    def place(self) -> float:
        return (WIDTH_PX - LEFT_PX - RIGHT_PX) / max(1, len(self.times))

    def x(self, index: float) -> float:
        """Return the left end of a bucket; with index + 0.5 its middle."""
        return LEFT_PX + index * self.place

    def y(self, value: float) -> float:
        """Return the y coordinate of a value, in pixels. A value beyond the scale is drawn at its edge."""
        return TOP_PX + (1 - min(1.0, max(0.0, self.scale.part(value)))) * (HEIGHT_PX - TOP_PX - BOTTOM_PX)

    def axes(self) -> str:
        """Return both axes: a line and a label for each tick, and the times below."""
        drawn = []
        for tick in self.scale.ticks:
            y = coordinate(self.y(tick))
            style = "pgq-base" if tick == self.scale.low else "pgq-grid"
            drawn.append(f'<path class="{style}" d="M{LEFT_PX} {y}H{WIDTH_PX - RIGHT_PX}"/>')
            label = value_text(tick, self.kind)
            drawn.append(f'<text class="pgq-tick" x="{WIDTH_PX - RIGHT_PX + 8}" y="{y}" dy=".32em">{label}</text>')
        for index, time, day in axis_of_time.labels(self.times):
            x = coordinate(self.x(index + 0.5 if self.width >= timedelta(days=1) else index))
            drawn.append(f'<path class="pgq-base" d="M{x} {HEIGHT_PX - BOTTOM_PX}v4"/>')
            for line, label in enumerate(filter(None, (time, day))):
                below = HEIGHT_PX - BOTTOM_PX + 16 + 13 * line
                drawn.append(f'<text class="pgq-tick" x="{x}" y="{below}" text-anchor="middle">{label}</text>')
        return "".join(drawn)

    def tooltips(self, series: Sequence[tuple[str, Sequence[float | None]]]) -> str:
        """Return a column over each bucket, whose tooltip has its values."""
        columns = []
        for index, time in enumerate(self.times):
            lines = [f"{axis_of_time.bucket_label(time, self.width)} UTC"]
            lines += [f"{text(name, 60)}: {value_text(values[index], self.kind)}" for name, values in series]
            columns.append(
                f'<rect class="pgq-hit" x="{coordinate(self.x(index))}" y="{TOP_PX}" width="{coordinate(self.place)}"'
                f' height="{HEIGHT_PX - TOP_PX - BOTTOM_PX}"><title>{"&#10;".join(lines)}</title></rect>'
            )
        return "".join(columns)


def svg(
    title: str, description: str, inside: str, *, height: float = HEIGHT_PX, width: float = WIDTH_PX, style: str = ""
) -> str:
    """Return an SVG of this size in pixels, whose title and description screen readers read."""
    styled = f'class="{style}" ' if style else ""
    size = f"{coordinate(width)} {coordinate(height)}"
    name = f"pgq{crc32((title + description + inside).encode('utf-8', 'replace')):08x}"
    return (
        f'<svg {styled}role="img" viewBox="0 0 {size}" aria-labelledby="{name}t {name}d">'
        f'<title id="{name}t">{text(title)}</title><desc id="{name}d">{text(description)}</desc>{inside}</svg>'
    )


def figure(title: str, note: str, legend: Sequence[tuple[str, str]], drawing: str) -> str:
    """Return a figure with caption and legend. `legend`: class and name of each series."""
    keys = "".join(f'<li><i class="pgq-key {style}"></i>{text(name, 60)}</li>' for style, name in legend)
    noted = f'<span class="pgq-note">{text(note)}</span>' if note else ""
    legends = f'<ul class="pgq-legend">{keys}</ul>' if legend else ""
    return (
        f'<figure class="pgq-chart"><figcaption><b>{text(title)}</b>{noted}{legends}</figcaption>'
        f'<div class="pgq-scroll">{drawing}</div></figure>'
    )


def empty(title: str, note: str, reason: str = "Nothing in this period.") -> str:
    """Return the figure of a chart without data: its title, its note, and the reason instead of a drawing."""
    return figure(title, note, [], f'<p class="pgq-empty">{text(reason)}</p>')
