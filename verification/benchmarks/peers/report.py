"""The table of all contestants, the promises, and the same as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from .contests import WORKLOADS, Outcome, promises

HEAD = ("work", "who", "settings", "median", "lowest to highest", "ours is better by", "remarks")


def table(outcomes: list[Outcome], *, markdown: bool) -> str:
    rows: list[tuple[str, ...]] = [HEAD]
    for outcome in outcomes:
        title = WORKLOADS[outcome.workload].title
        for standing in outcome.result.standings:
            values = [run.value for run in standing.runs]
            advantage = outcome.advantage(standing)
            who = standing.name.partition(",")[0]
            rows.append((
                title,
                who,
                outcome.labels.get(standing.name, ""),
                f"{number(standing.value)} {outcome.result.contest.unit}" if math.isfinite(standing.value) else "never",
                f"{number(min(values))} to {number(max(values))}",
                "" if advantage is None else "∞" if math.isinf(advantage) else f"{number(advantage)}x",
                ", ".join(f"{name} {number(value)}" for name, value in standing.remarks().items()),
            ))  # fmt: skip
    if markdown:
        rows.insert(1, tuple("---" for _ in HEAD))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def number(value: float) -> str:
    if math.isinf(value):
        return "never"
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def as_json(facts: dict[str, str], versions: dict[str, str], outcomes: list[Outcome]) -> str:
    """Everything that was measured: each run, not only the medians. `null` stands for what never happened."""
    report = {
        "facts": facts,
        "versions": versions,
        "workloads": [_workload(outcome) for outcome in outcomes],
        "promises": [{"promise": str(promise), "met": promise.met} for promise in promises(outcomes)],
    }
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)


def _workload(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.workload,
        "title": outcome.result.contest.title,
        "unit": outcome.result.contest.unit,
        "contestants": [
            {
                "name": standing.name,
                "settings": outcome.labels.get(standing.name),
                "median": _finite(standing.value),
                "ours_is_better_by": _finite(outcome.advantage(standing)),
                "runs": [
                    {"value": _finite(run.value), **{key: _finite(value) for key, value in run.remarks.items()}}
                    for run in standing.runs
                ],
            }
            for standing in outcome.result.standings
        ],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
