"""A short run without worker processes: actors in threads on one database, then the history of it. For sabotage."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from .actors.actor import Actor, Stage
from .actors.consumer import Consumer
from .actors.others import Keeper, Operator, Reader, Registrar
from .actors.producer import BREAKER, FLAKY, SHARED, Producer
from .crowd import CROWDED, crowd_stage, prepare_crowd, share_crowd
from .history import History, Recorder, audit, load
from .server import Server

EQUAL = ["free a", "free b", "free c", "free d"]
CHANNELS: dict[str, dict[str, Any]] = {
    **{name: {} for name in EQUAL},
    "one": {"max_concurrency": 1},
    "three": {"max_concurrency": 3},
    "strict": {"ordered": True},
    "slow": {"release_interval": "15 ms", "release_burst": 2},
    "small": {"max_size": 12},
    "newest": {"max_size": 6, "full_policy": "drop_oldest"},
    "edited": {"max_concurrency": 2},
    "pausing": {},
}
LEASE = 0.4
CONSUMERS = 6
CROWD_CONSUMERS = 2
DRAIN_WITHIN = 8.0
# Messages a second that are settled in the calm, at least: channels of one may have long lines.
PACE = 40
# Messages of one channel before the storm: more than another one may wait for.
TRICKLE = 120
SHARED_LIMIT = {"max_concurrency": 3, "max_cost": 10}


@dataclass(slots=True)
class Storm:
    """``seconds`` of work and tricks; then everything must be settled within DRAIN_WITHIN, and the backlog's time."""

    url: str
    folder: Path
    seed: int = 1
    seconds: float = 3.0
    options: dict[str, Any] = field(default_factory=dict)
    server: Server | None = None  # whose log is read
    # Acts on the server meanwhile, and returns when the trouble is over.
    trouble: Callable[[Recorder], None] | None = None

    def run(self) -> History:
        self.folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(self.url, self.folder, self.seed, LEASE, CHANNELS, options=self.options)
        with self.session() as session:
            prepare(session, CHANNELS, self.options.get("shared_limit", SHARED_LIMIT))
            prepare_crowd(session, self.options.get("crowd", {}))
            if "queue_limit" in self.options:
                limit_queue(session, self.options["queue_limit"])
        driver = Recorder(self.folder, "driver")
        trickle(stage)
        self.backlog(stage)
        self.play(stage, driver)
        with self.session() as session:
            audit.dump(session, self.folder)
        if self.server is not None:
            self.server.report_errors(driver)
            driver.info("log watched", lines=True)
        driver.close()
        return load(self.folder)

    def session(self) -> psycopg.Connection[Any]:
        """A new one: the server may have crashed since the last."""
        return psycopg.connect(self.url, autocommit=True)

    def describe(self, **more: Any) -> None:
        facts = {
            "seed": self.seed, "kind": "storm", "idle_within": 3_000_000, "batch": 5, "largest_call": 5,
            "concurrent_dequeues": CONSUMERS,
            "equal_channels": EQUAL, "effects": {"plain": "plain", "atomic": "atomic"}, **more,
        }  # fmt: skip
        (self.folder / "run.json").write_text(json.dumps(facts))

    def backlog(self, stage: Stage) -> None:
        """The same for each of the equal channels, so that their shares can be compared; and for the crowd."""
        for name, where, count in (("backlog", stage, 60), ("backlog-crowd", crowd_stage(stage), 30)):
            first = Producer(where, name)
            for channel in EQUAL if where is stage else CROWDED:
                messages = [{**first.message(channel), "priority": 0, "delay": "0"} for _ in range(count)]
                keys = [json.loads(message["payload"])["key"] for message in messages]
                call = first.recorder.invoke("enqueue_many", keys=keys, channel=channel)
                first.enqueue_many(first.session.connection(), call, messages, keys)
            first.end()

    def play(self, stage: Stage, driver: Recorder) -> None:
        crowd = crowd_stage(stage)
        watching: list[Actor] = [Reader(stage, "reader"), Registrar(stage, "registrar")]
        working: list[Actor] = [
            Keeper(stage, "keeper"),
            *(Operator(stage, f"operator-{place}") for place in range(self.options.get("operators", 1))),
            *(Consumer(stage, f"consumer-{place}") for place in range(CONSUMERS)),
            Operator(crowd, "operator-crowd"),
            *(Consumer(crowd, f"consumer-crowd-{place}") for place in range(CROWD_CONSUMERS)),
        ]
        producing: list[Actor] = [
            *(Producer(stage, f"producer-{place}") for place in range(self.options.get("producers", 2))),
            Producer(crowd, "producer-crowd", pause=0.05),
        ]
        for actor in working:
            if actor.stage is crowd:
                # Its idle dequeues must not take the machine from the others, whose equal shares are compared.
                actor.pause = max(actor.pause, 0.03)
        over = threading.Event()
        threads = {actor: threading.Thread(target=actor.run, daemon=True) for actor in [*working, *producing]}
        looking = threading.Thread(target=watch, args=(watching, over), daemon=True)
        for thread in [*threads.values(), looking]:
            thread.start()
        if self.trouble is None:
            time.sleep(self.seconds)
        else:
            self.trouble(driver)
        stage.calm.set()
        for actor in producing:
            threads[actor].join(30)
        with self.session() as session:
            self.settle(session, driver)
        stage.stop.set()
        for actor in working:
            threads[actor].join(30)
        over.set()
        looking.join(30)

    def settle(self, session: psycopg.Connection[Any], driver: Recorder) -> None:
        resume_all(session)
        notify_all(session)
        share_crowd(session, self.options.get("crowd", {}))
        [left] = session.execute("SELECT count(*) FROM pgqueue_message").fetchone() or (0,)
        within = DRAIN_WITHIN + left / PACE
        driver.info("calm")
        done = drained(session, within)
        if done:
            driver.info("drained")
        self.describe(drain_within=int(within * 1_000_000), drained=done)


def trickle(stage: Stage) -> None:
    """Let one channel's messages come as fast as they are taken while another channel has one. In the storm the line is
    never that empty, and only here one channel has all the priority."""
    calm = replace(stage, calm=threading.Event(), options={"limits": [1]})
    calm.calm.set()
    producer, consumer = Producer(calm, "trickle"), Consumer(calm, "trickling consumer")
    for place, channel in enumerate(["small", *["pausing"] * TRICKLE]):
        message = {**producer.message(channel), "priority": 5 if place else 0, "delay": "0"}
        keys = [json.loads(message["payload"])["key"]]
        call = producer.recorder.invoke("enqueue", keys=keys, channel=channel)
        producer.enqueue(producer.session.connection(), call, [message], keys)
        if place:
            for held in consumer.dequeue():
                consumer.settle("complete", held)
    producer.end()
    consumer.end()


def watch(actors: list[Actor], over: threading.Event) -> None:
    """Reader and registrar, each at its own pace, to the very end: they look once more when all others have ended."""
    due = dict.fromkeys(actors, 0.0)
    while not over.wait(0.05):
        for actor in actors:
            if due[actor] <= time.monotonic():
                actor.step()
                due[actor] = time.monotonic() + actor.pause
    for actor in actors:
        actor.end()


def prepare(
    session: psycopg.Connection[Any], channels: dict[str, dict[str, Any]], shared: dict[str, Any] = SHARED_LIMIT
) -> None:
    """The triggers, the channels with their limits, a shared limit, and a breaker."""
    audit.install(session)
    for name, limits in channels.items():
        session.execute("SELECT pgqueue_channel_set('default', %s, p_limits => %s)", (name, json.dumps(limits)))
    session.execute("SELECT pgqueue_limit_set(%s, %s)", (SHARED, json.dumps(shared)))
    session.execute("SELECT pgqueue_breaker_set(%s, %s)", (FLAKY, json.dumps(BREAKER)))


def resume_all(session: psycopg.Connection[Any]) -> None:
    """Open what the operator has paused."""
    session.execute("UPDATE pgqueue_channel SET paused_at = NULL WHERE paused_at IS NOT NULL")
    session.execute("SELECT pgqueue_limit_resume(%s)", (SHARED,))


def notify_all(session: psycopg.Connection[Any]) -> None:
    """Notify the events that messages wait for, and that their producers have not."""
    query = "SELECT m.payload ->> 'key' FROM pgqueue_message AS m WHERE m.payload ->> 'key' LIKE 'steps:%'"
    for event in session.execute(query).fetchall():
        session.execute("SELECT pgqueue_notify_event(%s)", event)


def limit_queue(session: psycopg.Connection[Any], limit: int) -> None:
    """Let the limit of the queue be so old that leases are counted by the list at its gate."""
    limits = json.dumps({"max_concurrency": limit})
    session.execute("SELECT pgqueue_queue_set('default', %s)", (limits,))
    session.execute("UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes'")


# A batch that a settlement has left to the sweep is over a moment later.
DRAINED = """
SELECT NOT EXISTS (SELECT FROM pgqueue_message) AND NOT EXISTS (SELECT FROM pgqueue_batch_unsure)
"""


def drained(session: psycopg.Connection[Any], within: float) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if session.execute(DRAINED).fetchone() == (True,):
            return True
        time.sleep(0.05)
    return False
