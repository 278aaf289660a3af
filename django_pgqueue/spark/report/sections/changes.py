"""The section that compares two periods: sentences with their numbers, and the channels that changed most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django_pgqueue.charts import text, value_text
from django_pgqueue.spark.report.compare import ONE_HOUR, WAIT, Comparison, Key, Period
from django_pgqueue.spark.report.html import Safe, Section, html_paragraph, html_table, safe
from django_pgqueue.spark.report.read import COUNTS, SPENT
from django_pgqueue.spark.report.sections.summary import part

# A change is mentioned from this part of the earlier value on; a wait also has to differ by so many seconds.
MENTIONED, MENTIONED_SECONDS = 0.1, 0.1
MOST_MOVERS = 10
EMPTY: dict[str, Any] = dict.fromkeys([*COUNTS, *SPENT, "settled"], 0) | {WAIT: None}

Totals = Mapping[Key, Mapping[str, Any]]


def changes(compared: Comparison, *, of_channel: bool = False) -> Section:
    """Return the section. Without two whole days or hours there is nothing to compare, and it says so.

    ``of_channel``: the report is about one channel, and compares it with no other.
    """
    if not compared.now.days:
        return Section("changes", "What changed", html_paragraph("A comparison needs metrics of two whole hours."))
    now, before = ({} if of_channel else period.totals("channel") for period in (compared.now, compared.before))
    what = "The channel" if of_channel else "The queue"
    grain = compared.grain
    waits = _waits(what, compared.now.totals("queue"), compared.before.totals("queue"), grain)
    sentences = [*_of_all(compared), *waits, *_of_channels(now, before, grain), *_of_failures(compared)]
    periods = f"{_period(compared.now)}, compared with {_period(compared.before)}; {grain}s that are over."
    listed = "".join(f"<li>{sentence}</li>" for sentence in sentences)
    body = f'<p class="quiet">{text(periods)}</p><ul>{listed}</ul>{_movers(now, before, grain)}'
    return Section("changes", "What changed", body)


def sentence(template: str, *values: object) -> Safe:
    """Return a sentence of the page. ``template`` is HTML with ``{}`` for each value; names are escaped."""
    return Safe(template.format(*(safe(value) for value in values)))


def named(key: Key) -> Safe:
    """Return the names of a queue, or of a queue and a channel or handler, as they are shown in a sentence."""
    return Safe(" / ".join(f"<bdi>{text(name)}</bdi>" for name in key))


def compared_text(now: float, before: float, kind: str = "count") -> str:
    """Return how a value differs from an earlier one, as "20 % more than before (1,000)"."""
    if not before:
        return "none before" if now else "as before"
    if abs(now - before) < 0.005 * before:
        return f"as many as before ({value_text(before, kind)})"
    if now >= 2 * before:
        return f"{now / before:.1f} times as many as before ({value_text(before, kind)})"
    word = "more" if now > before else "less" if kind == "seconds" else "fewer"
    return f"{value_text(abs(now - before) / before, 'share')} {word} than before ({value_text(before, kind)})"


def _of_all(compared: Comparison) -> Iterator[Safe]:
    now, before = (_added(period.totals("queue")) for period in (compared.now, compared.before))
    yield sentence(
        "<b>{}</b> messages were settled: {}.",
        value_text(now["settled"]),
        compared_text(now["settled"], before["settled"]),
    )
    if now["dead"] or before["dead"]:
        yield sentence(
            "<b>{}</b> of them died: {}, before {}.",
            part(now["dead"], now["settled"]),
            f"{value_text(now['dead'])} dead letters",
            f"{part(before['dead'], before['settled'])} ({value_text(before['dead'])})",
        )
    for column, template in (
        ("run_seconds", "Handlers ran for <b>{}</b>: {}."),
        ("retry_seconds", "Failed attempts took <b>{}</b>: {}."),
    ):
        if now[column] or before[column]:
            changed = compared_text(now[column], before[column], "seconds").replace("as many", "as long")
            yield sentence(template, value_text(now[column], "seconds"), changed)
    if now["sla_breaches"] or before["sla_breaches"]:
        yield sentence(
            "<b>{}</b> messages broke the SLA of their queue or channel: {}.",
            value_text(now["sla_breaches"]),
            compared_text(now["sla_breaches"], before["sla_breaches"]),
        )


def _of_channels(now: Totals, before: Totals, grain: str) -> Iterator[Safe]:
    yield from _waits("The channel", now, before, grain)
    known = {key: now[key]["settled"] - before[key]["settled"] for key in now.keys() & before.keys()}
    for key, template in (
        (_largest(known, 1), "The channel {} grew most: <b>{}</b> messages, {}."),
        (_largest(known, -1), "The channel {} shrank most: <b>{}</b> messages, {}."),
    ):
        if key is not None and _differs(now[key]["settled"], before[key]["settled"]):
            counted = now[key]["settled"], before[key]["settled"]
            yield sentence(template, named(key), value_text(counted[0]), compared_text(*counted))
    for keys, totals, template in (
        (now.keys() - before.keys(), now, "New channels: <b>{}</b>. {} had the most messages, {}."),
        (before.keys() - now.keys(), before, "Channels that had messages only before: <b>{}</b>. {} had the most, {}."),
    ):
        key = _largest({key: totals[key]["settled"] for key in keys}, 1)
        if key is not None:
            yield sentence(template, value_text(len(keys)), named(key), value_text(totals[key]["settled"]))


def _of_failures(compared: Comparison) -> Iterator[Safe]:
    now, before = compared.now.totals("handler"), compared.before.totals("handler")
    grown = {key: row["retry_seconds"] - before.get(key, EMPTY)["retry_seconds"] for key, row in now.items()}
    key = _largest(grown, 1)
    if key is not None and _differs(now[key]["retry_seconds"], before.get(key, EMPTY)["retry_seconds"]):
        yield sentence(
            "Failures of the handler {} cost more than before: <b>{}</b>, before {}.",
            named(key),
            value_text(now[key]["retry_seconds"], "seconds"),
            value_text(before.get(key, EMPTY)["retry_seconds"], "seconds"),
        )
    reasons, earlier = compared.now.reasons(), compared.before.reasons()
    reason = _largest({(name,): count - earlier.get(name, 0) for name, count in reasons.items()}, 1)
    if reason is not None and _differs(reasons[reason[0]], earlier.get(reason[0], 0)):
        yield sentence(
            "The reason {} made more dead letters than before: <b>{}</b>, before {}.",
            named(reason),
            value_text(reasons[reason[0]]),
            value_text(earlier.get(reason[0], 0)),
        )


def _waits(what: str, now: Totals, before: Totals, grain: str) -> Iterator[Safe]:
    """Yield sentences about the wait that became longer most, and the one that became shorter most."""
    differences = {
        key: row[WAIT] - before[key][WAIT]
        for key, row in now.items()
        if key in before and row[WAIT] is not None and before[key][WAIT] is not None
    }
    for sign, word in ((1, "longer"), (-1, "less")):
        key = _largest(differences, sign)
        if key is not None and abs(differences[key]) >= MENTIONED_SECONDS:
            waits = now[key][WAIT], before[key][WAIT]
            if _differs(*waits):
                yield sentence(
                    f"{what} {{}} waited {word}: p95 of the worst {grain} <b>{{}}</b>, before {{}}.",
                    named(key),
                    *(value_text(wait, "seconds") for wait in waits),
                )


def _largest(differences: Mapping[Key, float], sign: int) -> Key | None:
    """Return the key whose value grew most (``sign`` 1) or shrank most (-1); None if none did."""
    key = min(differences, key=lambda key: (-sign * differences[key], key), default=None)
    return key if key is not None and sign * differences[key] > 0 else None


def _differs(now: float, before: float) -> bool:
    return abs(now - before) >= MENTIONED * before


def _movers(now: Totals, before: Totals, grain: str) -> str:
    """Return the table of the channels whose number of messages changed most."""
    pairs = {key: (now.get(key, EMPTY), before.get(key, EMPTY)) for key in now.keys() | before.keys()}
    changed = {key: pair[0]["settled"] - pair[1]["settled"] for key, pair in pairs.items()}
    order = sorted((key for key in pairs if changed[key]), key=lambda key: (-abs(changed[key]), key))
    if not order:
        return ""
    rows = []
    for key in order[:MOST_MOVERS]:
        new, old = pairs[key]
        rows.append(
            [
                *key,
                f"{'+' if changed[key] > 0 else '−'}{value_text(abs(changed[key]))}",
                value_text(new["settled"]),
                value_text(old["settled"]),
                value_text(new["dead"]),
                value_text(old["dead"]),
                value_text(new[WAIT], "seconds"),
                value_text(old[WAIT], "seconds"),
            ]
        )
    headings = ["Queue", "Channel", "Change", "Settled", "Before", "Dead letters", "Before"]
    headings += [f"Wait p95, worst {grain}", "Before"]
    more = f", the first {MOST_MOVERS} of {len(order):,}" if len(order) > MOST_MOVERS else ""
    return html_table(f"Top movers{more}", headings, rows, names=2)


def _added(totals: Totals) -> dict[str, Any]:
    return {column: sum(row[column] for row in totals.values()) for column in EMPTY if column != WAIT}


def _period(period: Period) -> str:
    if period.hours:
        begin, end = period.hours[0], period.hours[-1] + ONE_HOUR
        same_day = begin.date() == period.hours[-1].date()
        return f"{begin:%d %b %Y %H:%M} – {end:%H:%M}" if same_day else f"{begin:%d %b %H:%M} – {end:%d %b %Y %H:%M}"
    first, last = f"{period.days[0]:%d %b %Y}", f"{period.days[-1]:%d %b %Y}"
    return first if first == last else f"{first} – {last}"
