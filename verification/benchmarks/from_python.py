"""Enqueue from a Django program, beside what the same program does with a table of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

from tests.support.paths import REPOSITORY

from .bulk import CHANNELS
from .cluster import Cluster
from .contest import Contest, Target
from .design import PGQUEUE
from .measure import Figures, costs, fresh
from .plan import Plan

CREATE, BULK_CREATE = "objects.create of a model", "bulk_create of a model"


def from_python(cluster: Cluster, way: str, *, seconds: float) -> Figures:
    """Run one way of `django_client`, and return its figures."""
    with fresh(cluster, PGQUEUE, CHANNELS) as run:
        run.script("plain_table")
        run.checkpoint()
        environment = {
            **os.environ,
            "DATABASE_URL": cluster.url(run.database),
            "DJANGO_SETTINGS_MODULE": "verification.benchmarks.settings",
            "PYTHONPATH": str(REPOSITORY),
        }
        command = [sys.executable, "-m", "verification.benchmarks.django_client", way, str(seconds)]
        before = run.sample()
        done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{way} failed:\n{done.stderr[-3000:]}")
        found: dict[str, float] = json.loads(done.stdout)
        value = found.pop("value")
        cost = costs(before, run.sample(), found["rows"], "row") if "rows" in found else {}
        return Figures(value, remarks={**found, **cost})


def contests(plan: Plan) -> list[Contest]:
    run = partial(from_python, plan.cluster, seconds=plan.seconds)
    return [
        Contest(
            "one message in an open transaction, from Django",
            "µs",
            CREATE,
            {CREATE: partial(run, "create"), "enqueue": partial(run, "enqueue")},
            (Target("enqueue", at_most=1.3),),
        ),
        Contest(
            "1,000 messages per call, from Django",
            "rows/s",
            BULK_CREATE,
            {BULK_CREATE: partial(run, "bulk_create"), "enqueue_many": partial(run, "enqueue_many")},
            (Target("enqueue_many", at_least=100_000, absolute=True),),
        ),
    ]
