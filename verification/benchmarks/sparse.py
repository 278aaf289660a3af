"""Light tenants beside heavy ones: what a light one waits, and what the heavy ones keep."""

from __future__ import annotations

import time
from bisect import bisect_right
from functools import partial

from tests.support.sessions import one

from .cluster import Cluster
from .contest import Contest, Target
from .design import PGQUEUE
from .measure import WARM_UP, Figures, Run, fresh, quantile
from .plan import Plan

HEAVY = 1_000  # channels with a backlog that does not end
# Messages of the backlog for each second: more than one consumer takes in the two windows.
PER_SECOND = 4_000
LIGHT = 500
EVERY = 3.0  # seconds from one message of a light channel to its next: longer than a round of the line
# Seconds after a window until what was leased in it is in the archive.
SETTLED = 0.2
DEQUEUES_P99 = "dequeues waited p99"

Served = list[tuple[int, float, float]]  # channel, enqueued at, leased at


def sparse(cluster: Cluster, *, light: int, seconds: float) -> Figures:
    """Measure the share that the heavy channels keep of what the light ones leave.

    light     channels that have a message each EVERY seconds, beside HEAVY ones with a backlog
    seconds   of each of two windows: without the light channels, and with them

    One consumer takes and completes one message a call. Returns the heavy channels' messages per second divided by what
    is left for them: all that the consumer took in the first window, less what the light ones sent in the second.
    """
    with fresh(cluster, PGQUEUE, HEAVY + light) as run:
        per_channel = round(PER_SECOND * (2 * seconds + 3 * WARM_UP) / HEAVY)
        run.fill(per_channel * HEAVY, channels=HEAVY)
        run.settle()
        run.checkpoint()
        length = 2 * (seconds + SETTLED) + 3 * WARM_UP
        run.tick(length)
        consuming = run.clients("consume", clients=1, seconds=length, batch=1)
        time.sleep(WARM_UP)
        alone = len(window(run, seconds)) / seconds
        sending = run.clients(
            "light", clients=1, seconds=seconds + 2 * WARM_UP,
            first=HEAVY + 1, light=light, n=0, pause=round(EVERY / light * 1e6),
        )  # fmt: skip
        time.sleep(WARM_UP)
        served = window(run, seconds)
        sending.wait()
        consuming.wait()
    of_light = [message for message in served if message[0] > HEAVY]
    heavy, lights = (len(served) - len(of_light)) / seconds, len(of_light) / seconds
    leases = [at for _, _, at in served]
    # Messages that were leased after the message was enqueued, up to its own lease.
    calls = sorted(bisect_right(leases, leased) - bisect_right(leases, enqueued) for _, enqueued, leased in of_light)
    waits = sorted((leased - enqueued) * 1e3 for _, enqueued, leased in of_light)
    return Figures(
        heavy / (alone - lights),
        remarks={
            "alone/s": alone,
            "heavy/s": heavy,
            "light/s": lights,
            "dequeues waited p50": quantile(calls, 0.5),
            DEQUEUES_P99: quantile(calls, 0.99),
            "wait p50 ms": quantile(waits, 0.5),
            "wait p99 ms": quantile(waits, 0.99),
        },
    )


def window(run: Run, seconds: float) -> Served:
    """Return what is leased in a window that begins now, in the order of the leases."""
    now = "SELECT extract(epoch FROM clock_timestamp())::float8"
    since = one(run.connection, now)
    time.sleep(seconds + SETTLED)
    return [message for message in run.script("served", since=since) if message[2] < since + seconds]


def contests(plan: Plan) -> list[Contest]:
    """Return the contest: one light channel, and many; what each waits, and what is left for the heavy ones."""
    run = partial(sparse, plan.cluster, seconds=max(20.0, plan.seconds))
    one, many = "1 light channel", f"{LIGHT} light channels"
    return [
        Contest(
            f"{HEAVY:,} channels with a backlog, beside light ones with a message each {EVERY:g} s, one consumer",
            "of what is left, to the heavy ones",
            one,
            {one: partial(run, light=1), many: partial(run, light=LIGHT)},
            (
                Target(many, at_least=0.95, absolute=True),
                Target(one, at_most=3, remark=DEQUEUES_P99),
                Target(many, at_most=3, remark=DEQUEUES_P99),
            ),
        )
    ]
