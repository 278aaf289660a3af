"""Leases: exclusive, as long as they were given for, as often as allowed."""

from __future__ import annotations

from collections import defaultdict

from django_pgqueue.conf import DEFAULTS
from verification.chaos.history import History, Info, Op

from .lives import Lease, Lives
from .verdict import Findings


def i5_leases_do_not_overlap(history: History, lives: Lives) -> Findings:
    """one lease at a time; it lasts from its dequeue on, and no other call ends it early"""
    asked = {
        token: op.value["asked"]
        for op in history.of("dequeue")
        if op.value.get("asked")
        for _, token, _ in op.value["leases"]
    }
    for life in lives.values():
        before: Lease | None = None
        for lease in life.leases:
            if before is not None and before.ended is None:
                yield f"{lease} begins in {lease.granted.xid}, while {before} lives"
            elif (lease.granted.expires_at or 0) <= (lease.granted.leased_at or lease.granted.at):
                # By the clock of the call: on a busy machine, a call may take longer than a short lease lasts.
                yield f"{lease} was born expired in {lease.granted.xid}"
            elif (lease.granted.leased_at or lease.granted.at) < asked.get(lease.token, 0):
                yield f"{lease} counts from before its dequeue, in {lease.granted.xid}"
            elif lease.ended and lease.how == "swept" and lease.ended.at < lease.expires_at:
                early = (lease.expires_at - lease.ended.at) / 1e6
                yield f"{lease} was swept in {lease.ended.xid}, {early:.3f} s before it expired"
            else:
                yield None
            before = lease


def i12_attempts_are_limited(history: History, lives: Lives) -> Findings:
    """a message is delivered max_attempts times at most, deferrals and interruptions apart; what has begun counts"""
    runs = {(op.args["message"], op.args["token"]): op for op in history.of("handle")}
    for life in lives.values():
        if not life.created or not life.leases:
            continue
        deliveries = sum(lease.how not in ("deferred", "interrupted") for lease in life.leases)
        interruptions = sum(lease.how == "interrupted" for lease in life.leases)
        limit = life.created.max_attempts or 0
        # Only its handler may defer a message that has begun, or let it wait. Any other call would forget that it ran.
        deferring = lives.key(life).startswith(("defer:", "steps:"))
        for lease in life.leases:
            run = runs.get((life.message, lease.token or ""))
            if run is not None and not deferring and lease.how == "deferred" and lease.ended is not None:
                early = run.began < lease.ended.at
                yield f"{lease}: its handler had begun, and its attempt was given back" if early else None
        yield f"message {life.message}: {deliveries} deliveries, {limit} allowed" if deliveries > limit else None
        # With one more, it becomes a dead letter.
        most = DEFAULTS["MAX_INTERRUPTIONS"] - 1
        if interruptions > most:
            yield f"message {life.message}: interrupted {interruptions} times and given back, {most} allowed"


def i16_healthy_holders_keep_their_leases(history: History, lives: Lives) -> Findings:
    """who beats in time, or runs in a healthy worker, keeps its lease"""
    beats: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for op in history.of("heartbeat"):
        if op.result == "ok":
            for message, token in zip(op.args["ids"], op.args["tokens"], strict=True):
                beats[message, token].append((op.began, op.began + op.args["lease"]))
    slow = list(history.of("handle"))
    runs = {(op.args["message"], op.args["token"]): op for op in slow if op.args.get("slow") and op.result == "ok"}
    faults = list(history.happened("fault"))
    for lease in lives.leases():
        key = (lease.granted.message or 0, lease.token or "")
        swept = lease.ended if lease.how == "swept" else None
        if good := [until for began, until in beats.get(key, ()) if swept is None or began < swept.at]:
            if swept is not None and swept.at < max(good):
                yield f"{lease} was swept in {swept.xid}, but its heartbeat was good for longer"
            else:
                yield None
        run = runs.get(key)
        if run is not None and not disturbed(run, faults):
            # One that had not begun yet waited in a process that could not say that it holds it.
            taken = swept is not None and run.began < swept.at
            yield f"{lease}: the handler ran on in a healthy worker, and the lease was taken away" if taken else None


def disturbed(run: Op, faults: list[Info]) -> bool:
    """Whether a fault may have touched this run: faults last until they are healed, and a moment longer."""
    return any(
        fault.at <= (run.ended or fault.at) and fault.at + fault.fields.get("lasts", 0) + 10_000_000 >= run.began
        for fault in faults
    )
