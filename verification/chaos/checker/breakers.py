"""Breakers of handlers: what is leased while one is open."""

from __future__ import annotations

from collections import defaultdict

from verification.chaos.history import History, Row
from verification.chaos.history.events import LEASED

from .limits import Settings
from .lives import Lives, is_grant, transactions
from .verdict import Findings


def i22_breakers(history: History, lives: Lives) -> Findings:
    """while a breaker is open one message at a time tries, after the pause; nothing else uses an attempt"""
    breakers: dict[str, Settings] = {}
    handler_of: dict[int, str] = {}
    trying: dict[str, set[int]] = defaultdict(set)
    for transaction in transactions(history.rows):
        granted: list[tuple[str, int, Row]] = []
        for row in transaction:
            if row.event == "limit" and (name := row.detail.get("breaker")):
                breaker = breakers.setdefault(name, Settings(name))
                breaker.times.append(row.committed)
                breaker.values.append(row.detail)
            elif row.event == "created" and row.message is not None and (row.detail or {}).get("guarded"):
                handler_of[row.message] = row.detail["guarded"]
            elif row.message in handler_of:
                assert row.message is not None
                handler = handler_of[row.message]
                if is_grant(row):
                    granted.append((handler, row.message, row))
                elif row.event == "gone" or (row.event == "changed" and row.status != LEASED):
                    trying[handler].discard(row.message)
                    spent = (row.attempts or 0) > (row.was_attempts or 0)
                    yield f"message {row.message}: {row.xid} used an attempt without a lease" if spent else None
        for handler, message, row in granted:
            began = row.leased_at or row.at
            times = breakers[handler].between("open_until", began, row.committed)
            known = [time for time in times if time is not None]
            if len(known) < len(times):
                continue  # it was closed, or a call that began then could not know
            trying[handler].add(message)
            early, count = (min(known) - began) / 1e6, len(trying[handler])
            if early > 0:
                yield f"breaker of {handler}: message {message} was leased {early:.3f} s before the pause was over"
            else:
                yield f"breaker of {handler}: {count} messages try after transaction {row.xid}" if count > 1 else None
