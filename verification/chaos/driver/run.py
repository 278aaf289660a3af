"""A run: faults while there is work, then calm until everything is settled, then the history is complete."""

from __future__ import annotations

import json
import platform
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import django
import psycopg

import django_pgqueue
from verification.chaos.actors.actor import Stage
from verification.chaos.actors.others import Reader, Registrar
from verification.chaos.actors.producer import Producer
from verification.chaos.crowd import CROWD, CROWDED, OPTIONS, crowd_stage, prepare_crowd, share_crowd
from verification.chaos.history import Recorder, audit
from verification.chaos.server import Server
from verification.chaos.storm import drained, notify_all, prepare, resume_all, watch

from .faults import Faults
from .fleet import Fleet
from .plan import CHANNELS, EFFECTS, EQUAL, KINDS, LEASE, Tier, schedule

DATABASE = "chaos"
SWEEP = 1.0
# Messages a second that are settled in the calm, at least, on a machine that is busy otherwise.
PACE = 10


def say_nothing(text: str) -> None: ...


@dataclass(slots=True)
class Run:
    server: Server
    folder: Path
    tier: Tier
    seed: int
    say: Callable[[str], None] = say_nothing
    facts: dict[str, Any] = field(default_factory=dict)

    def play(self) -> None:
        """Leaves the history in the folder. Raises what the driver itself could not cope with."""
        self.folder.mkdir(parents=True, exist_ok=True)
        url = self.server.make_database(DATABASE)
        recorder = Recorder(self.folder, "driver")
        with self.server.connect(DATABASE) as session:
            prepare(session, CHANNELS)
            prepare_crowd(session, {})
            self.describe(session)
        fleet = Fleet(url, self.folder)
        try:
            self.enlist(fleet)
            self.phases(fleet, recorder, url)
        finally:
            fleet.close()
        with self.server.connect(DATABASE) as session:
            audit.dump(session, self.folder)
        recorder.info("log watched", lines=self.server.report_errors(recorder) > 0)
        recorder.close()
        (self.folder / "run.json").write_text(json.dumps(self.facts, indent=1))

    def describe(self, session: psycopg.Connection[Any]) -> None:
        version = session.execute("SHOW server_version").fetchone()
        self.facts |= {
            "kind": "chaos",
            "seed": self.seed,
            "messages": self.tier.messages,
            "lease": LEASE,
            "batch": 8,
            "concurrent_dequeues": self.tier.groups * self.tier.processes + 3,
            "equal_channels": EQUAL,
            "effects": EFFECTS,
            "idle_within": 10_000_000,
            "folded_within": 3_000_000,
            "planned": self.tier.faults,
            "versions": {
                "PostgreSQL": (version or ("?",))[0],
                "Python": platform.python_version(),
                "Django": django.__version__,
                "psycopg": psycopg.__version__,
                "pgqueue-django": django_pgqueue.__version__,
            },
        }

    def enlist(self, fleet: Fleet) -> None:
        rate = 1.25 * self.tier.messages / self.tier.seconds
        common = {"seed": self.seed, "lease": LEASE, "channels": CHANNELS}
        # Two producers, three messages a step on average.
        fleet.client("producers", ["producer"] * 2, pause=2 * 3 / rate, options={"kinds": KINDS}, **common)
        crowd = {**common, "channels": CROWDED, "queue": CROWD, "options": OPTIONS}
        fleet.client("producers-crowd", ["producer", "operator"], pause=6 * 3 / rate, **crowd)
        fleet.client("consumers", ["consumer", "consumer", "operator"], pause=0.1, **common)
        for place in range(self.tier.groups):
            fleet.worker(f"supervisor-{place}", self.tier.processes, clock="clock" in self.tier.faults and place == 0)
        fleet.worker("single", 0)

    def phases(self, fleet: Fleet, recorder: Recorder, url: str) -> None:
        stage = Stage(url, self.folder, self.seed, LEASE, CHANNELS, options={"kinds": KINDS})
        backlog(stage, EQUAL, self.tier.backlog)
        backlog(crowd_stage(stage), CROWDED, self.tier.backlog // 3)
        over = threading.Event()
        watchers = [Reader(stage, "reader"), Registrar(stage, "registrar")]
        watching = threading.Thread(target=watch, args=(watchers, over), daemon=True)
        faults = Faults(fleet, self.server, DATABASE, recorder)
        started = time.monotonic()
        watching.start()
        try:
            self.storm(fleet, faults, recorder)
            self.facts["storm_seconds"] = time.monotonic() - started
            self.calm(fleet, stage, recorder)
        finally:
            over.set()
            watching.join(60)
            self.facts |= {
                "faults": dict(faults.injected),
                "recovery_seconds": faults.recoveries,
                "seconds": time.monotonic() - started,
            }

    def storm(self, fleet: Fleet, faults: Faults, recorder: Recorder) -> None:
        """Until all faults are done and all messages are there."""
        waiting = schedule(self.tier, self.seed)
        special = Special(self, recorder)
        started = reported = time.monotonic()
        while waiting or faults.traps or special.left or time.monotonic() - started < self.tier.seconds:
            now = time.monotonic() - started
            fleet.tend()
            faults.tend()
            special.tend(now)
            if waiting and waiting[0].at <= now and not faults.inject(fault := waiting.pop(0)):
                waiting.append(type(fault)(now + 0.3, fault.kind, fault.dice))
                waiting.sort()
            if time.monotonic() - reported > 15:
                reported = time.monotonic()
                left = f"{len(waiting)} and {len(faults.traps)} traps to come"
                self.say(f"{now:5.0f} s: {sum(faults.injected.values())} faults, {left}")
            time.sleep(0.01)
            if now > 4 * self.tier.seconds + 60:
                raise TimeoutError(
                    f"the storm does not end: {len(waiting)} faults wait, {len(special.left)} special messages, "
                    f"and these traps: {', '.join(faults.traps)}"
                )
        while faults.unhealed:
            faults.tend(all_of_them=True)
        # Counting reads millions of rows at the end of a long run.
        while special.created() < self.tier.messages:
            for _ in range(10):
                fleet.tend()
                time.sleep(0.2)

    def calm(self, fleet: Fleet, stage: Stage, recorder: Recorder) -> None:
        fleet.tend()
        wrong = fleet.retire([post for post in fleet.clients if post.name.startswith("producers")])
        for post in fleet.clients:
            post.signal(signal.SIGUSR1)
        with self.server.connect(DATABASE) as session:
            resume_all(session)
            notify_all(session)
            share_crowd(session, {})
            enqueue_one(stage, "slow", "calm")
            [backlog] = session.execute("SELECT count(*) FROM pgqueue_message").fetchone() or (0,)
            # A lease that runs out, the sweep that finds it, the longest back-off, the slow handler, and the work.
            within = LEASE + SWEEP + 0.2 + 5 + 3 * LEASE + backlog / PACE
            self.facts["drain_within"] = int(within * 1e6)
            self.say(f"calm: {backlog} messages to settle within {within:.0f} s")
            recorder.info("calm")
            done = self.wait(session, fleet, within)
            self.facts["drained"] = done
            if done:
                recorder.info("drained")
        wrong += fleet.retire(fleet.workers) + fleet.retire([post for post in fleet.clients if not post.retired])
        self.facts["unclean"] = wrong

    def wait(self, session: psycopg.Connection[Any], fleet: Fleet, within: float) -> bool:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            fleet.tend()
            if drained(session, 0.3):
                return True
        return False


class Special:
    """Enqueue now and then messages whose handlers outlast their lease, or kill their worker."""

    def __init__(self, run: Run, recorder: Recorder) -> None:
        tier = run.tier
        self._run = run
        self._stage = Stage(run.server.url(DATABASE), run.folder, run.seed, LEASE, CHANNELS)
        kinds = ["slow"] * tier.slow + ["crash", "late"] * tier.crashing
        random.Random(run.seed).shuffle(kinds)
        self.left = [(tier.seconds * (place + 0.5) / len(kinds), str(place), kind) for place, kind in enumerate(kinds)]

    def tend(self, now: float) -> None:
        if self.left and self.left[0][0] <= now:
            _, name, kind = self.left.pop(0)
            if not enqueue_one(self._stage, kind, name):
                self.left.insert(0, (now + 0.5, f"{name}-again", kind))

    def created(self) -> int:
        with self._run.server.connect(DATABASE) as session:
            query = "SELECT count(*) FROM chaos_audit WHERE event = 'created'"
            return (session.execute(query).fetchone() or (0,))[0]


def backlog(stage: Stage, channels: Iterable[str], count: int) -> None:
    """The same for each of the channels, so that their shares can be compared."""
    first = Producer(stage, f"backlog-{stage.queue}")
    first.kinds = {"plain": 1}
    for channel in channels:
        messages = [{**first.message(channel), "priority": 0, "delay": "0"} for _ in range(count)]
        send(first, "enqueue_many", messages)
    first.end()


def enqueue_one(stage: Stage, kind: str, name: str) -> bool:
    """Returns whether it was answered."""
    sender = Producer(stage, f"driver-{kind}-{name}")
    sender.kinds = {kind: 1}
    done = send(sender, "enqueue", [{**sender.message(EQUAL[0]), "delay": "0"}])
    sender.end()
    return done


def send(producer: Producer, way: str, messages: list[dict[str, Any]]) -> bool:
    keys = [json.loads(message["payload"])["key"] for message in messages]
    call = producer.recorder.invoke(way, keys=keys, channel=messages[0]["channel"])
    producer.session.call(call, lambda session: getattr(producer, way)(session, call, messages, keys))
    return not producer.session.broke
