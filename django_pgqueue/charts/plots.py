"""Draw the charts: lines with a band, stacks over time, a sparkline, a meter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django_pgqueue.charts.frame import Frame, coordinate, empty, figure, svg
from django_pgqueue.charts.scale import scale_for, value_text

COLOURS = 8


@dataclass(frozen=True, slots=True)
class Series:
    """Hold values by bucket; None: no value. `style`: a class of charts.css; default: a colour by position."""

    name: str
    values: Sequence[float | None]
    style: str = ""


def _styled(series: Sequence[Series]) -> list[Series]:
    """Give each series a colour. There are eight; further series are grey, so that no colour means two things."""
    return [
        one if one.style else Series(one.name, one.values, f"pgq-{place}" if place <= COLOURS else "pgq-rest")
        for place, one in enumerate(series, 1)
    ]


def _known(series: Sequence[Series]) -> bool:
    return any(value is not None for one in series for value in one.values)


def _largest(series: Sequence[Series], kind: str) -> str:
    """Return the description for readers who do not see the chart."""
    tops = ((one.name, max((value for value in one.values if value is not None), default=None)) for one in series)
    return "Largest: " + ", ".join(f"{name} {value_text(top, kind)}" for name, top in tops) + "."


def _width(times: Sequence[datetime]) -> timedelta:
    return times[1] - times[0] if len(times) > 1 else timedelta(0)


def line_plot(
    title: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    *,
    kind: str = "count",
    band: tuple[int, int] | None = None,
    note: str = "",
) -> str:
    """Return a figure (HTML) with a line for each series, broken where values are missing.

    ``times``: the beginnings of buckets of one width, none left out. ``band``: the two series whose space between is
    filled. ``kind``: how values are written, see scale.value_text. ``note``: a sentence below the title.
    """
    if not times or not _known(series):
        return empty(title, note)
    series = _styled(series)
    scale = scale_for((value for one in series for value in one.values), kind)
    frame = Frame(times, _width(times), scale, kind)
    drawn = [frame.axes()]
    if band:
        lower, upper = series[band[0]], series[band[1]]
        drawn += [_between(frame, part) for part in _runs(lower.values, upper.values)]
    for one in series:
        for part in _runs(one.values):
            drawn.append(_line(frame, part, one.style))
    drawn.append(frame.tooltips([(one.name, one.values) for one in series]))
    if scale.log:
        note = f"{note}, logarithmic" if note else "logarithmic"
    legend = [(one.style, one.name) for one in series]
    return figure(title, note, legend, svg(title, _largest(series, kind), "".join(drawn)))


def _runs(*columns: Sequence[float | None]) -> Iterator[list[tuple[int, tuple[float, ...]]]]:
    """Yield the stretches in which all columns have values, each as a list of (index, values)."""
    rows = enumerate(zip(*columns, strict=True))
    for there, run in groupby(rows, key=lambda row: None not in row[1]):
        if there:
            yield list(run)


def _points(frame: Frame, run: list[tuple[int, tuple[float, ...]]], column: int = 0) -> list[str]:
    return [f"{coordinate(frame.x(index + 0.5))} {coordinate(frame.y(values[column]))}" for index, values in run]


def _line(frame: Frame, run: list[tuple[int, tuple[float, ...]]], style: str) -> str:
    if len(run) == 1:
        [(index, (value,))] = run
        x, y = coordinate(frame.x(index + 0.5)), coordinate(frame.y(value))
        return f'<circle class="pgq-dot {style}" cx="{x}" cy="{y}" r="3"/>'
    return f'<path class="pgq-line {style}" d="M{"L".join(_points(frame, run))}"/>'


def _between(frame: Frame, run: list[tuple[int, tuple[float, ...]]]) -> str:
    return f'<path class="pgq-band" d="M{"L".join(_points(frame, run) + _points(frame, run, 1)[::-1])}Z"/>'


def stack(
    title: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    *,
    kind: str = "count",
    line: Series | None = None,
    note: str = "",
) -> str:
    """Return a figure (HTML) of stacked bars for each bucket, the first series at the bottom.

    ``line``: a series that is drawn over the bars, not added to them. ``kind``, ``note``: as in line_plot().
    """
    if not times or not _known([*series, *([line] if line else [])]):
        return empty(title, note)
    series = _styled(series)
    totals = [sum(filter(None, values)) for values in zip(*(one.values for one in series), strict=True)]
    frame = Frame(times, _width(times), scale_for([*totals, *(line.values if line else ())], kind), kind)
    base = [0.0] * len(times)
    drawn = [frame.axes()]
    for one in series:
        drawn.append(_bars(frame, one, base))
        base = [low + (value or 0.0) for low, value in zip(base, one.values, strict=True)]
    if line:
        drawn += [_line(frame, run, line.style) for run in _runs(line.values)]
        series = [*series, line]
    drawn.append(frame.tooltips([(one.name, one.values) for one in series]))
    legend = [(one.style, one.name) for one in series]
    return figure(title, note, legend, svg(title, _largest(series, kind), "".join(drawn)))


def _bars(frame: Frame, series: Series, base: Sequence[float]) -> str:
    gap = 1.5 if frame.place >= 8 else 0.0
    width = min(frame.place - gap, 48.0)
    path = []
    for index, (low, value) in enumerate(zip(base, series.values, strict=True)):
        if value:
            left = frame.x(index) + (frame.place - width) / 2
            bottom, top = frame.y(low), frame.y(low + value)
            # A single event among thousands stays visible.
            top = min(top, bottom - 0.7)
            path.append(
                f"M{coordinate(left)} {coordinate(bottom)}V{coordinate(top)}h{coordinate(width)}V{coordinate(bottom)}z"
            )
    return f'<path class="pgq-area {series.style}" d="{"".join(path)}"/>' if path else ""


def sparkline(title: str, values: Sequence[float | None], *, kind: str = "count") -> str:
    """Return a small line (SVG) without axes, from 0 to its largest value; the last value has a dot.

    A value of None is left out; without any value the text is empty. ``kind``: how values are written.
    """
    width, height, edge = 120.0, 28.0, 3.0
    known = [(index, value) for index, value in enumerate(values) if value is not None]
    if not known:
        return ""
    top = max(value for _, value in known) or 1.0
    step = (width - 2 * edge) / max(1, len(values) - 1)
    points = [(edge + index * step, height - edge - (height - 2 * edge) * value / top) for index, value in known]
    path = "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)
    x, y = points[-1]
    dot = f'<circle class="pgq-dot pgq-1" cx="{coordinate(x)}" cy="{coordinate(y)}" r="2.5"/>'
    inside = f'<path class="pgq-line pgq-1" d="M{path}"/>{dot}'
    description = f"Last {value_text(known[-1][1], kind)}, largest {value_text(top, kind)}."
    return svg(title, description, inside, height=height, width=width, style="pgq-sparkline")


def meter(title: str, share: float, *, style: str = "pgq-1") -> str:
    """Return a small bar (SVG) that is filled up to ``share`` (0 to 1) of its length, and never beyond."""
    width, height = 56.0, 8.0
    filled = width * min(1.0, max(0.0, share))
    inside = f'<rect class="pgq-track" width="{coordinate(width)}" height="{coordinate(height)}" rx="2"/>'
    if filled:
        length = coordinate(max(2.0, filled))
        inside += f'<rect class="pgq-area {style}" width="{length}" height="{coordinate(height)}" rx="2"/>'
    used = f"{value_text(share, 'share')} used."
    return svg(title, used, inside, height=height, width=width, style="pgq-meter")
