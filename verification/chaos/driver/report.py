"""The report of a run, for people: plain text that is Markdown, too."""

from __future__ import annotations

from collections import Counter
from typing import Any

from verification.chaos.checker import Lives, Verdict
from verification.chaos.history import History
from verification.chaos.history.events import LEASED


def report(history: History, verdicts: list[Verdict]) -> str:
    run = history.run
    lives = Lives(history)
    lines = [f"# Chaos, seed {run['seed']}", "", versions(run), "", *figures(history, lives), ""]
    lines += ["| Fault | Injected |", "|---|---|"]
    lines += [f"| {kind} | {count:,} |" for kind, count in sorted(run.get("faults", {}).items())]
    left = {info.fields["kind"]: info.fields["why"] for info in history.happened("left out")}
    lines += [f"| {kind} | none: {why} |" for kind, why in sorted(left.items())]
    lines += ["", "| Invariant | Checked | Violations |", "|---|---|---|"]
    for verdict in verdicts:
        broken = f"{verdict.broken:,}" if verdict.checked else "not exercised"
        lines.append(f"| {verdict.name}: {verdict.title} | {verdict.checked:,} | {broken} |")
    for verdict in verdicts:
        lines += [f"- {verdict.name}: {text}" for text in verdict.violations]
    return "\n".join([*lines, "", *bounds(run, lives, verdicts)])


def versions(run: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())


def figures(history: History, lives: Lives) -> list[str]:
    run = history.run
    ends: Counter[str | None] = Counter(
        f"{row.event} ({row.outcome})" for life in lives.values() for row in life.ends()
    )
    results = Counter(op.result for op in history.ops)
    hows = Counter(lease.how for lease in lives.leases())
    again = sum(max(0, len(life.leases) - 1) for life in lives.values())
    effects = Counter((row.message, row.outcome) for row in history.rows if row.event == "effect")
    twice = Counter(kind for (_, kind), count in effects.items() if count > 1)
    stale = sum(op.result == "fail" and op.value.get("error") == "lease lost" for op in history.ops)
    waited = sorted(run.get("recovery_seconds", [0.0]))
    return [
        f"- {run.get('seconds', 0):.0f} s, {run.get('storm_seconds', 0):.0f} s of them with faults",
        f"- processes that did not end cleanly: {run.get('unclean') or 'none'}",
        f"- {len(lives):,} messages: {listed(ends)}",
        f"- {sum(hows.values()):,} leases, {again:,} of them redeliveries: {listed(hows)}",
        f"- calls: {results['ok']:,} answered, {results['fail']:,} refused or failed, {results['unknown']:,} cut off",
        f"- {stale:,} stale settlements, refused",
        f"- effects that happened more than once: {twice['plain']:,} without a transaction, which may be",
        f"- effects of atomic handlers that happened more than once: {twice['atomic']:,}",
        f"- recovery of the server: {waited[-1] if waited else 0:.1f} s at most",
        f"- heartbeats, by the rows that they changed: {heartbeats(history):,}",
    ]


def listed(counts: Counter[str | None]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common())


def heartbeats(history: History) -> int:
    return sum(
        row.event == "changed" and row.status == row.was_status == LEASED and row.token == row.was_token
        for row in history.rows
    )


def bounds(run: dict[str, Any], lives: Lives, verdicts: list[Verdict]) -> list[str]:
    """The meaning of zero, at 95 %: the rule of three. More than zero means that something is wrong."""
    broken = sum(verdict.broken for verdict in verdicts)
    if broken:
        return [f"{broken:,} violations."]
    kinds = run.get("faults", {})
    counts = [
        ("message", len(lives)),
        ("SIGKILL of a worker", kinds.get("kill", 0)),
        ("crash of the server", kinds.get("crash", 0)),
    ]
    lines = [f"0 of {count:,}: under {3 / count:.1e} for each {name}" for name, count in counts if count]
    return ["0 violations. At 95 %, by the rule of three: " + "; ".join(lines) + "."]
