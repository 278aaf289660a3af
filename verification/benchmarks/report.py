"""One table, for the terminal or for the docs."""

from __future__ import annotations

from .contest import Result, Standing

HEAD = ("work", "design", "median", "lowest to highest", "ratio to the baseline", "target", "remarks")
VERDICTS = {True: "met", False: "MISSED", None: "not measured"}


def table(results: list[Result], *, markdown: bool) -> str:
    rows = [row for result in results for row in (_row(result, standing) for standing in result.standings)]
    return _markdown(rows) if markdown else _plain(rows)


def _row(result: Result, standing: Standing) -> tuple[str, ...]:
    values = [run.value for run in standing.runs]
    return (
        result.contest.title,
        standing.name,
        f"{standing.value:,.0f} {result.contest.unit}",
        f"{min(values):,.0f} to {max(values):,.0f}",
        _ratio(result, standing),
        "; ".join(f"{target} {VERDICTS[standing.met(target)]}" for target in standing.targets),
        _remarks(standing),
    )


def _ratio(result: Result, standing: Standing) -> str:
    if standing.ratio is not None:
        return f"{standing.ratio:.2f}x"
    return "baseline" if standing.name == result.contest.baseline else ""


def _remarks(standing: Standing) -> str:
    parts = [f"{name} {_number(value)}" for name, value in standing.remarks().items()]
    parts += [f"{name} {' → '.join(map(_number, values))}" for name, values in standing.series().items()]
    return ", ".join(parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2f}"


def _plain(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(1, len(HEAD) - 1)]
    lines, title = [], None
    for row in (HEAD, *rows):
        if row[0] != title:
            title = row[0]
            lines += ["", title] if row is not HEAD else []
        cells = [cell.ljust(width) for cell, width in zip(row[1:-1], widths, strict=True)]
        lines.append("  " + "  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def _markdown(rows: list[tuple[str, ...]]) -> str:
    lines = [HEAD, tuple("---" for _ in HEAD), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
