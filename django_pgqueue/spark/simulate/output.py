"""Print the outcome: a line per channel with the actual, the replayed and the changed waits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date

from django_pgqueue.spark.simulate.outcome import PERCENTILES, SimulationOutcome, Waits

NOTHING = "–"


def show(
    outcomes: Sequence[SimulationOutcome], *, queue: str, days: Sequence[date], top: int, validate: bool, as_json: bool
) -> None:
    """Print the outcomes. ``outcomes``: the replay of the past, and perhaps one with changes."""
    if as_json:
        named = dict(zip(("replayed", "changed"), map(asdict, outcomes), strict=False))
        print(json.dumps({"queue": queue, "days": [day.isoformat() for day in days], **named}, indent=1))
        return
    was, *others = outcomes
    period = f"{days[0]} to {days[-1]}" if len(days) > 1 else f"{days[0]}"
    print(f"Queue {queue}, {period} (UTC): {was.all.messages:,} messages of {len(was.channels)} channels")
    print(f"As it was: {_capacity(was)}. Seconds of wait, actual → replayed{' → changed' if others else ''}:")
    for line in _lines(outcomes, top):
        print(line)
    if len(was.channels) > top:
        print(f"… and {len(was.channels) - top} more channels (--top)")
    for other in others:
        print(f"Changed: {_capacity(other)}{_changes(was, other)}")
    print(_trust(was))
    if validate:
        for line in _errors(was):
            print(line)


def _lines(outcomes: Sequence[SimulationOutcome], top: int) -> Iterable[str]:
    was = outcomes[0]
    names = sorted(was.channels, key=lambda name: (-was.channels[name].messages, name))[:top]
    rows = [["channel", "messages", *(f"p{percentile}" for percentile in PERCENTILES), ""]]
    rows.append(_row("all", [outcome.all for outcome in outcomes]))
    rows += [_row(_named(name), [outcome.channels[name] for outcome in outcomes]) for name in names]
    yield from _aligned(rows)


def _named(channel: str) -> str:
    """Return the name with control characters escaped, for a terminal."""
    return repr(channel)[1:-1]


def _row(name: str, waits: Sequence[Waits]) -> list[str]:
    columns = [waits[0].actual, *(each.simulated for each in waits)]
    cells = [" → ".join(_seconds(column, place) for column in columns) for place in range(len(PERCENTILES))]
    left = waits[-1].left
    return [name, f"{waits[0].messages:,}", *cells, f"{left:,} never ran" if left else ""]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *padded]).rstrip()


def _seconds(values: tuple[float, ...], place: int) -> str:
    if not values:
        return NOTHING
    return f"{values[place]:,.3f}" if values[place] < 100 else f"{values[place]:,.0f}"


def _capacity(outcome: SimulationOutcome) -> str:
    workers, concurrency = outcome.capacity.workers, outcome.capacity.concurrency
    return f"{workers:,} × {concurrency:,} handlers at a time, busy for {outcome.utilization:.0%} of it"


def _changes(was: SimulationOutcome, other: SimulationOutcome) -> str:
    found = [
        f"; queue: {field} {value}" for field, value in other.queue_limits.items()
        if value != was.queue_limits.get(field)
    ]  # fmt: skip
    found += [
        f"; shared limit {_named(name)}: {field} {value}" for name, limits in other.shared_limits.items()
        for field, value in limits.items() if value not in (None, [])
    ]  # fmt: skip
    found += [
        f"; {_named(name)}: {field} {value} instead of {was.limits[name][field]}"
        for name, limits in other.limits.items()
        for field, value in limits.items()
        if name in was.limits and value != was.limits[name][field]
    ]
    return "".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")


def _trust(was: SimulationOutcome) -> str:
    if not was.off:
        return "No message ran."
    half, most, nearly_all = was.off
    return (
        f"The replay of what was in force is off by {half:.3f} s or less for half of the messages, "
        f"{most:.3f} s for 95 %, {nearly_all:.3f} s for 99 %."
    )


def _errors(was: SimulationOutcome) -> Iterable[str]:
    rows = [["channel", *(f"p{percentile} is off by" for percentile in PERCENTILES)]]
    for name, waits in [("all", was.all), *sorted(was.channels.items())]:
        if waits.actual:
            differences = [new - old for old, new in zip(waits.actual, waits.simulated, strict=True)]
            shares = [f"{by:+.3f} s ({_part(by, of)})" for by, of in zip(differences, waits.actual, strict=True)]
            rows.append([_named(name), *shares])
    yield from _aligned(rows)


def _part(difference: float, of: float) -> str:
    return f"{difference / of:+.0%}" if of else NOTHING
