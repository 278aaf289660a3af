"""A settlement during a measurement is counted once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from tests.support.chance import seeds
from tests.support.sessions import Session, column, one
from tests.support.verbs import dequeue, enqueue_many, make_channel, settle

Connect = Callable[..., psycopg.Connection[Any]]
MESSAGES = 400


def work(session: Session, dice: random.Random) -> None:
    """Take and settle until nothing is left; some transactions stay open for a while, some are rolled back."""
    while one(session, "SELECT EXISTS (SELECT FROM pgqueue_message WHERE status = 1)"):
        leases = dequeue(session, dice.randint(1, 8))
        session.commit()
        if not leases:
            continue
        if dice.random() < 0.2:
            settle(session, leases)
            session.rollback()
        if dice.random() < 0.2:
            settle(session, leases, "dead_letter", ["refused"] * len(leases))
        else:
            settle(session, leases)
        session.execute("SELECT pg_sleep(%s)", [dice.random() * 0.01])
        session.commit()


def test_each_message_counts_once_whenever_its_transaction_ends(connect: Connect) -> None:
    session = connect(autocommit=True)
    for seed in seeds(1):
        make_channel(session, "shop")
        session.execute("TRUNCATE pgqueue_activity, pgqueue_measurement")
        session.execute("SELECT pgqueue_measure('0')")
        enqueue_many(session, ["shop"] * MESSAGES)
        sessions = [connect() for _ in range(4)]
        workers = [
            threading.Thread(target=work, args=(session, random.Random(f"{seed} {place}")))
            for place, session in enumerate(sessions)
        ]
        for worker in workers:
            worker.start()
        measured = 0
        while any(worker.is_alive() for worker in workers):
            measured += one(session, "SELECT settled FROM pgqueue_measure('0')")
        for worker in workers:
            worker.join()
        last = one(session, "SELECT settled FROM pgqueue_measure('0')")
        assert 0 < measured <= measured + last == MESSAGES
        sums = "SELECT sum(completed + dead) FROM pgqueue_activity WHERE {} GROUP BY minutes"
        for rows in ("channel IS NULL AND handler IS NULL", "channel = 'shop'", "handler IS NOT NULL"):
            assert column(session, sums.format(rows)) == [MESSAGES] * 2, rows
