"""Convert values to heights, ticks and short texts. Kinds of values: count, seconds, share (of 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

# The seconds of a unit, its name, and the value (in seconds) up to which it is used.
UNITS = [(1e-3, "ms", 1.0), (1.0, "s", 90.0), (60.0, "min", 7200.0), (3600.0, "h", 172_800.0), (86400.0, "d", math.inf)]
MAGNITUDES = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
SCALE_TICKS = 4
# Round times for a logarithmic axis, in seconds, from a microsecond to decades.
DECADES = (3456 * 10.0**n for n in range(2, 10))
ROUND_TIMES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36e3, *DECADES)
# If the largest value is more than this many times the median, a linear scale would hide the usual ones.
LOG_FROM_FACTOR = 50.0


def value_text(value: float | None, kind: str = "count") -> str:
    """Return a value for a reader: 1,234 or 12.3k; 250 ms or 3.5 min; 4.2 %. None is a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if kind == "share":
        percent = 100 * value
        if 99 < percent < 100:
            # The value is not rounded up to 100 %, which would mean all.
            return f"{min(percent, 99.99):.2f} %"
        return f"{percent:.0f} %" if percent == round(percent) or percent >= 10 else f"{percent:.2g} %"
    if kind == "seconds" and value:
        seconds, unit = next((size, name) for size, name, up_to in UNITS if abs(value) < up_to)
        return f"{_short(value / seconds)} {unit}"
    for size, name in MAGNITUDES:
        if abs(value) >= max(size, 10_000):
            return f"{_short(value / size)}{name}"
    return f"{value:,.0f}" if value == round(value) else _short(value)


def _short(value: float) -> str:
    """Return a number with three significant digits, without zeros at the end."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    digits_shown = f"{value:.{digits}f}"
    return digits_shown.rstrip("0").rstrip(".") if "." in digits_shown else digits_shown


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def part(self, value: float) -> float:
        """Return where the value stands between the low end, 0, and the high end, 1."""
        if self.log:
            value = max(value, self.low)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def scale_for(values: Iterable[float | None], kind: str) -> Scale:
    """Return a scale from 0 to a round number above all values. For seconds that lie far apart, it is logarithmic."""
    known = sorted(value for value in values if value is not None and math.isfinite(value))
    top = known[-1] if known and known[-1] > 0 else 0.0
    positive = [value for value in known if value > 0]
    if kind == "seconds" and positive and top > LOG_FROM_FACTOR * positive[len(positive) // 2]:
        return _logarithmic(max(positive[len(positive) // 20], top / 1e5), top)
    if kind == "share":
        top = min(top, 1.0) or 1.0
    size = next(size for size, _, up_to in UNITS if top < up_to) if kind == "seconds" else 1.0
    step = _round_step(top / size, whole=kind == "count") * size
    count = max(1, math.ceil(top / step - 1e-9))
    return Scale(0.0, step * count, tuple(step * number for number in range(count + 1)))


def _round_step(top: float, *, whole: bool) -> float:
    if top <= 0:
        return 1.0
    raw = top / SCALE_TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return max(1.0, math.ceil(step)) if whole and step < 10 else step


def _logarithmic(low: float, top: float) -> Scale:
    first = max(place for place, value in enumerate(ROUND_TIMES) if place == 0 or value <= low)
    last = next((place for place, value in enumerate(ROUND_TIMES) if value >= top), len(ROUND_TIMES) - 1)
    last = max(last, first + 1)
    every = max(1, math.ceil((last - first) / (SCALE_TICKS + 2)))
    return Scale(ROUND_TIMES[first], ROUND_TIMES[last], ROUND_TIMES[first : last + 1 : every], log=True)
