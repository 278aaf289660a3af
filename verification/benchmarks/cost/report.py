"""The tables of the command."""

from __future__ import annotations

from .budgets import ALL_THREE, Results
from .stations import BATCH, CHANNELS

PLAIN = "plain INSERT"
TOGETHER = {"one a call": ALL_THREE, f"{BATCH} a call": ("dequeue", "complete")}


def costs(results: Results, designs: list[str], baseline: str, *, markdown: bool) -> str:
    """One line a verb: µs of each design, and those of the first one in units of the baseline and of a plain INSERT."""
    ours = designs[0]
    head = ("channels", "work", *designs, *(f"{ours} to {name}" for name in designs[1:]), f"in {PLAIN}s")
    rows = [head]
    for channels in CHANNELS:
        plain = results.micros("one a call", ours, channels, PLAIN)
        for station, verbs in _lines(results, ours, channels):
            micros = [results.micros(station, design, channels, *verbs) for design in designs]
            ratios = [results.ratio(station, ours, design, channels, *verbs) for design in designs[1:]]
            unit = None if plain is None or micros[0] is None else micros[0] / plain
            rows.append((
                f"{channels:,}",
                f"{station}: {' + '.join(verbs)}",
                *(_number(value, 1) for value in micros),
                *(_number(value, 2) for value in [*ratios, unit]),
            ))  # fmt: skip
    return table(rows, markdown=markdown)


def _lines(results: Results, design: str, channels: int) -> list[tuple[str, tuple[str, ...]]]:
    """Each verb of a station, and those that belong together."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for station, name, places, verb in results.verbs():
        if (name, places) == (design, channels):
            found.append((station, (verb,)))
    for station, verbs in TOGETHER.items():
        last = max((index for index, line in enumerate(found) if line[0] == station), default=None)
        if last is not None:
            found.insert(last + 1, (station, verbs))
    return found


def table(rows: list[tuple[str, ...]], *, markdown: bool) -> str:
    """The first row is the head."""
    if markdown:
        lines = [rows[0], tuple("---" for _ in rows[0]), *rows[1:]]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
