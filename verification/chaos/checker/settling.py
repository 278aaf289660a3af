"""Only the holder of the newest lease may settle, once. Effects of atomic handlers are there exactly then."""

from __future__ import annotations

from collections import Counter, defaultdict

from verification.chaos.history import History, Op

from .lives import Lease, Lives, short
from .verdict import Findings

SETTLES = ("complete", "retry", "defer", "dead_letter")
WITH_TOKEN = (*SETTLES, "heartbeat")


def i3_completed_once(history: History, lives: Lives) -> Findings:
    """a message is completed once, by the newest lease"""
    acknowledged: dict[int, set[str]] = defaultdict(set)
    for op in history.of("complete"):
        if op.result == "ok":
            for message in op.value["done"]:
                acknowledged[message].add(op.args["tokens"][op.args["ids"].index(message)])
    for info in history.happened("acknowledged"):
        if info.fields["outcome"] == "completed":
            acknowledged[info.fields["message"]].add(info.fields["token"])
    for life in lives.values():
        newest = life.leases[-1].token if life.leases else None
        for row in life.rows:
            if row.event == "archived" and row.outcome == "completed":
                who = f"by {short(row.token)}, while {short(newest)} held it"
                problem = f"message {life.message} was completed in {row.xid} {who}"
                yield problem if row.token != newest else None
                for token in acknowledged.pop(life.message, ()):
                    problem = f"message {life.message}: {short(token)} was answered “completed”, {short(row.token)} did"
                    yield problem if token != row.token else None
    for message, tokens in acknowledged.items():
        yield f"message {message}: {', '.join(map(short, tokens))} was answered “completed”; it is not in the archive"


def i4_stale_leases_change_nothing(history: History, lives: Lives) -> Findings:
    """a lease that has ended changes nothing; tokens are unique, attempts rise by one"""
    leases: dict[tuple[int, str], Lease] = {}
    transactions: dict[str, int] = {}
    for lease in lives.leases():
        row = lease.granted
        assert row.message is not None
        if row.attempts != (row.was_attempts or 0) + 1:
            yield f"{lease}: attempt {row.attempts} after {row.was_attempts}"
        if row.token is None or transactions.setdefault(row.token, row.xid) != row.xid:
            yield f"{lease}: its token was given before, by transaction {transactions.get(row.token or '')}"
        leases[row.message, row.token or ""] = lease
        yield None
    for op in history.of(*WITH_TOKEN):
        for message, token in zip(op.args["ids"], op.args["tokens"], strict=True):
            yield answer(op, message, leases.get((message, token)))
    yield from foreign(lives)


def answer(op: Op, message: int, lease: Lease | None) -> str | None:
    """Whether a call with a token got the answer that it must get."""
    done = op.result == "ok" and message in op.value["done"]
    if lease is None:
        return f"{op}: a token that was never given is accepted for message {message}" if done else None
    if lease.ended is None or op.result == "unknown":
        return None
    repeated = op.args.get("skip_lost") and lease.how != "swept"
    if done and lease.ended.committed < op.began and not repeated:
        return f"{op}: {lease} had ended ({lease.how}, {lease.ended.xid}), and was accepted"
    if done and op.verb in SETTLES and lease.how == "swept":
        return f"{op}: the answer was that it is done, but {lease} was swept in {lease.ended.xid}"
    lost = op.result == "fail" and op.value.get("error") == "lease lost"
    meanwhile = op.began < lease.ended.committed < (op.ended or 0)
    # Raced: an earlier call of the same lease was cut off, and may have been at work still.
    if lost and op.verb in SETTLES and lease.how != "swept" and meanwhile and not op.args.get("raced"):
        return f"{op}: the answer was that {lease} is lost, and it was settled meanwhile"
    return None


def foreign(lives: Lives) -> Findings:
    """A leased message is changed only by its lease, or by the sweep."""
    for life in lives.values():
        for row in life.rows:
            if row.event == "changed" and row.settled_token and row.was_token and row.settled_token != row.was_token:
                # Kept from an earlier lease of this message: that is how a sweep looks.
                known = any(lease.token == row.settled_token for lease in life.leases)
                yield (
                    None if known else f"message {life.message}: {row.xid} gave it back with a token that no lease had"
                )


def i17_effects_once(history: History, lives: Lives) -> Findings:
    """effects of atomic handlers happen once if the message is completed, else not; others at least once"""
    atomic: Counter[int] = Counter()
    plain: Counter[int] = Counter()
    for row in history.rows:
        if row.event == "effect" and row.message is not None:
            (atomic if row.outcome == "atomic" else plain)[row.message] += 1
    effective = history.run.get("effects", {})
    for life in lives.values():
        kind = effective.get(life.created.key.partition(":")[0]) if life.created and life.created.key else None
        if kind is None:
            continue
        completed = any(row.event == "archived" and row.outcome == "completed" for row in life.rows)
        count = (atomic if kind == "atomic" else plain)[life.message]
        if kind == "atomic":
            wrong = count != int(completed)
            yield f"message {life.message}: {count} effects, completed: {completed}" if wrong else None
        else:
            yield f"message {life.message} is completed without its effect" if completed and not count else None
