"""The contestants, and their settings. The best settings were looked for on 2 cores."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cache

from .brokers import RABBITMQ_KIND, REDIS_KIND, Kind
from .environments import Environment, NpmEnvironment, OurEnvironment, PipEnvironment, clean
from .handlers import ASYNC

OURS = "pgqueue"


@dataclass(frozen=True, slots=True)
class Settings:
    """How the workers are started: `processes` times the same arguments. `label` is what the table shows.

    Without `keeps_pace` they take less than `latency` and `load` offer, and are left out of them.
    """

    label: str
    arguments: tuple[str, ...] = ()
    processes: int = 1
    variables: tuple[tuple[str, str], ...] = ()
    keeps_pace: bool = True


@dataclass(frozen=True, slots=True)
class Peer:
    """`program` knows install, fill and produce; `worker` starts a worker. Both follow the interpreter.

    `settings` has default, slots (8 messages at the same time, one process where it can) and best; pg-boss has notify.
    `broker`: the kind of server that its messages are on, where that is not PostgreSQL.
    """

    name: str
    environment: Environment
    program: tuple[str, ...]
    worker: tuple[str, ...]
    settings: dict[str, Settings]
    broker: Kind | None = None

    def missing(self) -> str | None:
        """Return why it cannot be measured here, or None."""
        return self.environment.missing() or (self.broker.missing() if self.broker else None)


def _json(label: str, processes: int = 1, **settings: object) -> Settings:
    return Settings(label, (json.dumps(settings),), processes)


PROCRASTINATE = Peer(
    "procrastinate",
    PipEnvironment(("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9")),
    ("-m", "procrastinate_app"),
    ("-m", "procrastinate", "--app=procrastinate_app.app"),
    {
        "default": Settings("default", ("worker",)),
        "slots": Settings("--concurrency 8", ("worker", "--concurrency", "8")),
        "best": Settings(
            "2 × --concurrency 10, warnings only",
            ("--log-level", "warning", "worker", "--concurrency", "10"),
            2,
            (("POOL", "12"),),
        ),
    },
)

PGQUEUER = Peer(
    "pgqueuer",
    PipEnvironment(("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0")),
    ("-m", "pgqueuer_app"),
    ("-m", "pgqueuer_app", "work"),
    {
        "default": _json("default"),
        "slots": _json("batch_size 8", batch_size=8),
        "best": _json("2 × batch_size 100", processes=2, batch_size=100),
    },
)

DJANGO_TASKS = Peer(
    "django-tasks-db",
    PipEnvironment(
        ("django-tasks-db[compat]==0.13.0", "psycopg[binary]==3.3.9"),
        (("DJANGO_SETTINGS_MODULE", "django_tasks_settings"),),
    ),
    ("-m", "django_tasks_app"),
    ("-m", "django", "db_worker"),
    {
        "default": Settings("default"),
        "slots": Settings("8 processes, CONN_MAX_AGE 60", (), 8, (("CONN_MAX_AGE", "60"),)),
        "best": Settings("8 × --verbosity 0, CONN_MAX_AGE 60", ("--verbosity", "0"), 8, (("CONN_MAX_AGE", "60"),)),
    },
)


GRAPHILE = Peer(
    "graphile-worker",
    NpmEnvironment(("graphile-worker@0.17.3",)),
    ("graphile_app.mjs",),
    ("graphile_app.mjs", "work"),
    {
        "default": _json("default"),
        "slots": _json("concurrentJobs 8", concurrentJobs=8),
        "best": _json(
            "concurrentJobs 24, localQueue 500",
            concurrentJobs=24,
            maxPoolSize=25,
            localQueue={"size": 500},
            completeJobBatchDelay=0,
            failJobBatchDelay=0,
        ),
    },
)

AWA = Peer(
    "awa-pg",
    PipEnvironment(("awa-pg==0.6.9",)),
    ("-m", "awa_app"),
    ("-m", "awa_app", "work"),
    {
        "default": _json("default, 50 workers", max_workers=50),
        "slots": _json("8 workers", max_workers=8),
        "best": _json("500 workers, claims of 500", max_workers=500, claim_batch_size=500, connections=20),
    },
)


# It completes a batch by one statement. A batch that is not full waits for the next poll: 0.5 s is the shortest that
# it takes. A queue whose inserts notify is a setting of its own, because notifying costs those who enqueue.
BURST = {"pollingIntervalSeconds": 0.5, "burstWhenBatchFull": True}
PG_BOSS = Peer(
    "pg-boss",
    NpmEnvironment(("pg-boss@12.38.0", "node@22.23.3")),
    ("pg_boss_app.mjs",),
    ("pg_boss_app.mjs", "work"),
    {
        "default": Settings("default: one message every 2 s", ("{}",), keeps_pace=False),
        "slots": _json(
            "batchSize 8, each settled by itself, poll 0.5 s", work={**BURST, "batchSize": 8, "perJobResults": True}
        ),
        "best": _json(
            "localConcurrency 2, batchSize 2000, poll 0.5 s", work={**BURST, "localConcurrency": 2, "batchSize": 2000}
        ),
        "notify": _json(
            "LISTEN/NOTIFY, batchSize 100",
            notify=True,
            work={**BURST, "batchSize": 100, "notifyPollingIntervalSeconds": 0.5},
        ),
    },
)


# Polls; the interval doubles when the database does not keep up. Each process must have a name of its own.
DBOS = Peer(
    "dbos",
    PipEnvironment(("dbos==3.4.0",)),
    ("-m", "dbos_app"),
    ("-m", "dbos_app", "work"),
    {
        "default": _json("default: polls each second"),
        "slots": _json("worker_concurrency 8, poll 0.05 s", worker_concurrency=8, polling_interval_sec=0.05),
        "best": _json(
            "2 × worker_concurrency 100, poll 0.02 s", processes=2, worker_concurrency=100, polling_interval_sec=0.02
        ),
    },
)

CELERY_ENVIRONMENT = PipEnvironment(("celery[redis]==5.7.0",))
_QUIET = ("worker", "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat")


def _celery(name: str, broker: Kind, durable: str) -> Peer:
    """Celery on a broker: an enqueue returns when that has the message; a task is acknowledged before it runs."""
    best = (*_QUIET, "--concurrency", "2", "--prefetch-multiplier", "256")
    return Peer(
        name,
        CELERY_ENVIRONMENT,
        ("-m", "celery_app"),
        ("-m", "celery", "--app", "celery_app"),
        {
            "default": Settings(f"default; {durable}", ("worker", "--loglevel", "WARNING")),
            "slots": Settings("--concurrency 8", (*_QUIET, "--concurrency", "8")),
            "best": Settings("--concurrency 2, --prefetch-multiplier 256", best),
        },
        broker,
    )


CELERY_REDIS = _celery("celery-redis", REDIS_KIND, "log of Redis synced each second")
CELERY_RABBITMQ = _celery("celery-rabbitmq", RABBITMQ_KIND, "publisher confirms")

DRAMATIQ = Peer(
    "dramatiq",
    PipEnvironment(("dramatiq[redis]==2.2.1",)),
    ("-m", "dramatiq_app"),
    ("-m", "dramatiq", "dramatiq_app"),
    {
        "default": Settings("default: 2 processes × 8 threads"),
        "slots": Settings("1 process × 8 threads", ("--processes", "1", "--threads", "8")),
        "best": Settings(
            "2 processes × 2 threads, prefetch 256",
            ("--processes", "2", "--threads", "2"),
            variables=(("dramatiq_queue_prefetch", "256"),),
        ),
    },
    REDIS_KIND,
)


@cache
def _options() -> str:
    """Return the options of our worker, from its own help."""
    command = [OurEnvironment().interpreter, "-m", "django", "runqueueworker", "--help"]
    environment = clean(OurEnvironment(), {"DATABASE_URL": "postgresql://nobody@/nothing?host=/nowhere"})
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def ours() -> Peer:
    """Threads in one process, until the worker has processes and coroutines."""
    processes = ("--processes", "2") if "--processes" in _options() else ()
    best = Settings(
        "2 processes, sync handlers" if processes else "1 process, sync handlers",
        (*processes, "--concurrency", "8", "--batch", "500"),
    )
    settings = {
        "default": Settings("default"),
        "slots": Settings("--concurrency 8", ("--concurrency", "8")),
        "best": best,
    }
    if "--async-concurrency" in _options():
        arguments = (*processes, "--async-concurrency", "500", "--batch", "500")
        settings |= {"best": Settings("2 processes, async handlers", arguments, 1, ((ASYNC, "1"),)), "sync": best}
    return Peer(
        OURS,
        OurEnvironment(),
        ("-m", "verification.benchmarks.peers.programs.pgqueue_app"),
        ("-m", "django", "runqueueworker"),
        settings,
    )


PEERS = (
    PROCRASTINATE, PGQUEUER, DJANGO_TASKS, GRAPHILE, AWA, PG_BOSS, DBOS, CELERY_REDIS, CELERY_RABBITMQ, DRAMATIQ,
)  # fmt: skip
NAMES = (OURS, *(peer.name for peer in PEERS))


def roster() -> list[Peer]:
    return [ours(), *PEERS]
