"""Enqueues in every way, commits, rolls back, and remembers the answers."""

from __future__ import annotations

import itertools
import json
from collections import deque
from typing import Any

import psycopg

from verification.chaos.history import Call

from .actor import Actor, Stage
from .session import ChaosConnection, Transaction

# The name of the shared limit, and how many of the messages have it.
SHARED = "shared"
SHARE = 0.3
# The costs of those messages; None: a message without a cost.
COSTS = (None, None, 1, 2, 7)
# The handler that has a breaker.
FLAKY = "chaos.flaky"
BREAKER = {"failures": 3, "within": "1 minute", "pause": "2 seconds"}
# How many of the messages have an order key, and how many keys a channel has.
KEYED = 0.2
KEYS = 3
# The channel of what follows a batch, and of unique keys: it is never full.
FOLLOWING = "pausing"
# Of the other messages that one waits for, the newest of its producer.
RECENT = 12
# The messages with a unique key, which are all on the channel of what follows, so that they meet.
UNIQUE = (
    {"key": "one at a time", "until": "settled"},
    {"key": "debounced", "until": "due", "replace": True, "wait": "200 ms", "at_most": "300 ms"},
)
WAYS = {
    "enqueue": 4, "enqueue_many": 2, "enqueue_in_transaction": 3, "insert": 1, "enqueue_batch": 2, "enqueue_after": 1,
    "enqueue_unique": 2, "enqueue_steps": 2,
}  # fmt: skip
ONE = "SELECT id, outcome, pgqueue_raise(refusal) FROM pgqueue_enqueue({arguments})"
AFTER = "SELECT id, outcome, pgqueue_raise(refusal) FROM pgqueue_enqueue_after(%(after)s, %(on_dead)s, {arguments})"
NOTIFY = "SELECT pgqueue_notify_event(%s)"
UNLESS = "SELECT id, outcome, pgqueue_raise(refusal) FROM pgqueue_enqueue_unique(%(unique)s, {arguments})"
ARGUMENTS = (
    "p_handler => %(handler)s, p_payload => %(payload)s, p_channel => %(channel)s, p_queue => %(queue)s, "
    "p_priority => %(priority)s, p_delay => %(delay)s::interval, p_backoff => interval '20 ms', "
    "p_backoff_longest => interval '200 ms', p_max_attempts => %(max_attempts)s, p_limits => %(limits)s, "
    "p_order_key => %(order_key)s, p_cost => %(cost)s"
)
INSERT = (
    "INSERT INTO pgqueue_message "
    "(channel_id, handler, payload, priority, backoff, backoff_longest, max_attempts, limits, order_key, cost) "
    "SELECT c.id, %(handler)s, %(payload)s, %(priority)s, '20 ms', '200 ms', %(max_attempts)s, "
    "pgqueue_limit_ids(to_jsonb(%(limits)s::text[])), %(order_key)s, %(cost)s "
    "FROM pgqueue_channel AS c WHERE c.queue = %(queue)s AND c.name = %(channel)s RETURNING id, 'created'"
)


class Producer(Actor):
    """``kinds``: of messages, by their share; the kind begins the key, and says what its handler does."""

    works_in_the_calm = False

    def __init__(self, stage: Stage, name: str, *, limit: int | None = None, pause: float = 0.004) -> None:
        super().__init__(stage, name)
        self.numbers = itertools.count(1)
        self.pause = pause
        self.limit = limit
        self.sent = 0
        self.recent: deque[int] = deque(maxlen=RECENT)
        # Those that messages with steps wait for, and that have not come.
        self.events: deque[str] = deque()
        self.kinds: dict[str, float] = stage.options.get("kinds", {"plain": 6, "atomic": 4, "flaky": 1})

    def step(self) -> None:
        channel = self.random.choice([*self.stage.channels, *self.stage.options.get("crowded", [])])
        way = self.random.choices(list(WAYS), list(WAYS.values()))[0]
        many = self.random.randint(2, 20) if way == "enqueue_many" else 1
        many = self.random.randint(2, 8) if way in ("enqueue_batch", "enqueue_after") else many
        # A message that is replaced has one kind of its own, and gets another one's key.
        kind = {"enqueue_unique": "plain", "enqueue_steps": "steps"}.get(way)
        messages = [self.maybe_keyed(self.maybe_limited(self.message(channel, kind))) for _ in range(many)]
        keys = [json.loads(message["payload"])["key"] for message in messages]
        call = self.recorder.invoke(way, keys=keys, channel=channel)
        self.session.call(call, lambda session: getattr(self, way)(session, call, messages, keys))
        self.sent += many
        if self.events and self.chance(0.2):
            self.notify(self.events.popleft())
        if self.limit is not None and self.sent >= self.limit:
            self.stage.options["done"] = True
            self.stage.stop.wait()

    def message(self, channel: str, kind: str | None = None) -> dict[str, Any]:
        kind = kind or self.random.choices(list(self.kinds), list(self.kinds.values()))[0]
        if kind == "flaky" and channel.startswith("free"):
            kind = "plain"  # their shares are compared, and an open breaker would take from them
        return {
            "handler": f"chaos.{kind}",
            "payload": json.dumps({"key": f"{kind}:{self.name}:{next(self.numbers)}"}),
            "channel": channel,
            "queue": self.stage.queue,
            "priority": self.random.choice([0, 0, 0, 5]),
            "delay": self.random.choice(["0", "0", "0", "50 ms", "300 ms"]),
            "max_attempts": self.stage.options.get("max_attempts", 5),
            "limits": None,
            "order_key": None,
            "cost": None,
        }

    def maybe_limited(self, message: dict[str, Any]) -> dict[str, Any]:
        limited = self.chance(self.stage.options.get("share", SHARE))
        # The rate of a channel counts costs, too: its messages would take too long.
        cost = None if message["channel"] == "rated" else self.random.choice(COSTS)
        return {**message, "limits": [SHARED], "cost": cost} if limited else message

    def maybe_keyed(self, message: dict[str, Any]) -> dict[str, Any]:
        keyed = self.chance(self.stage.options.get("keyed", KEYED))
        return {**message, "order_key": f"key {self.random.randrange(KEYS)}"} if keyed else message

    def enqueue(self, session: psycopg.Connection[Any], call: Call, messages: list[Any], keys: list[str]) -> None:
        rows = session.execute(ONE.format(arguments=ARGUMENTS), messages[0]).fetchall()
        self.remember(call, keys, rows)

    def insert(self, session: psycopg.Connection[Any], call: Call, messages: list[Any], keys: list[str]) -> None:
        self.remember(call, keys, session.execute(INSERT, messages[0]).fetchall())

    def enqueue_many(self, session: psycopg.Connection[Any], call: Call, messages: list[Any], keys: list[str]) -> None:
        self.remember(call, keys, self.insert_many(session, messages))

    def enqueue_batch(self, session: ChaosConnection, call: Call, messages: list[Any], keys: list[str]) -> None:
        channel = self.following(messages)
        after = json.dumps({"handler": "chaos.plain", "channel": channel, "queue": self.stage.queue, "payload": {}})
        with Transaction(session) as transaction:
            [batch] = session.execute("SELECT pgqueue_batch_open(%s, %s)", (after, after)).fetchone() or (0,)
            rows = self.insert_many(session, messages)
            session.execute("SELECT pgqueue_batch_seal(%s)", (batch,))
            transaction.commit()
        self.remember(call, keys, rows)

    def enqueue_after(self, session: ChaosConnection, call: Call, messages: list[Any], keys: list[str]) -> None:
        """Enqueue messages of which each waits for all before it, and, maybe, for some that were there before."""
        rows: list[tuple[Any, ...]] = []
        others = self.random.sample(list(self.recent), self.random.randint(0, min(3, len(self.recent))))
        with Transaction(session) as transaction:
            for message in messages:
                given = {**message, "after": others + [row[0] for row in rows if row[1] == "created"]}
                given["on_dead"] = self.random.choice(("cancel", "run"))
                statement = AFTER if given["after"] else ONE
                rows += session.execute(statement.format(arguments=ARGUMENTS), given).fetchall()
            if self.chance(0.3):
                self.stage.stop.wait(self.random.random() * 0.1)
            transaction.commit()
        self.remember(call, keys, rows)

    def enqueue_unique(self, session: ChaosConnection, call: Call, messages: list[Any], keys: list[str]) -> None:
        """Enqueue a message, unless one with its key is live; or put the one that is debounced off."""
        unique = self.random.choice(UNIQUE)
        given = {
            **messages[0], "channel": self.following(messages), "delay": None, "unique": json.dumps(unique),
            "headers": json.dumps({"unique": unique}),
        }  # fmt: skip
        arguments = f"{ARGUMENTS}, p_headers => %(headers)s"
        self.remember(call, keys, session.execute(UNLESS.format(arguments=arguments), given).fetchall())

    def enqueue_steps(self, session: ChaosConnection, call: Call, messages: list[Any], keys: list[str]) -> None:
        """Enqueue a message that waits for the event of its key, which comes in this transaction or later."""
        plain = {"limits": None, "order_key": None, "cost": None, "delay": "0"}
        given = {**messages[0], **plain, "channel": self.following(messages)}
        early = self.chance(0.4)
        with Transaction(session) as transaction:
            if early:
                session.execute(NOTIFY, keys)
            rows = session.execute(ONE.format(arguments=ARGUMENTS), given).fetchall()
            if self.chance(0.2):
                self.stage.stop.wait(self.random.random() * 0.1)
            transaction.commit()
        self.remember(call, keys, rows)
        if not early:
            self.events.append(keys[0])

    def notify(self, event: str) -> None:
        """Notify an event; some transactions stay open for a while, and some are rolled back."""
        call = self.recorder.invoke("notify_event", event=event)

        def work(session: ChaosConnection) -> None:
            with Transaction(session) as transaction:
                session.execute(NOTIFY, (event,))
                if self.chance(0.2):
                    self.stage.stop.wait(self.random.random() * 0.1)
                if not self.chance(0.1):
                    transaction.commit()
            call.ok()

        self.session.call(call, work)

    def following(self, messages: list[Any]) -> str:
        channel: str = FOLLOWING if FOLLOWING in self.stage.channels else messages[0]["channel"]
        return channel

    def insert_many(self, session: psycopg.Connection[Any], messages: list[Any]) -> list[tuple[Any, ...]]:
        columns = {name: [message[name] for message in messages] for name in messages[0]}
        limits = [names and json.dumps(names) for names in columns["limits"]]
        return session.execute(
            "SELECT id, outcome, pgqueue_raise(refusal) "
            "FROM pgqueue_enqueue_many(%(handler)s::text[], %(payload)s::jsonb[], "
            "%(channel)s::text[], %(queue)s::text[], p_priorities => %(priority)s::integer[], "
            "p_delays => %(delay)s::interval[], "
            "p_backoffs => array_fill(interval '20 ms', ARRAY[%(count)s]), "
            "p_max_attempts => %(max_attempts)s::integer[], "
            "p_backoff_longests => array_fill(interval '200 ms', ARRAY[%(count)s]), "
            "p_limits => %(limits)s::jsonb[], p_order_keys => %(order_key)s::text[], p_costs => %(cost)s::integer[])",
            {**columns, "count": len(messages), "limits": limits},
        ).fetchall()

    def enqueue_in_transaction(
        self, session: ChaosConnection, call: Call, messages: list[Any], keys: list[str]
    ) -> None:
        with Transaction(session) as transaction:
            session.execute("INSERT INTO chaos_audit (event, key) VALUES ('business', %s)", keys)
            rows = session.execute(ONE.format(arguments=ARGUMENTS), messages[0]).fetchall()
            if self.chance(0.1):
                self.stage.stop.wait(self.random.random() * 0.2)
            given_up = self.chance(0.1)
            if not given_up:
                transaction.commit()
        # Only now: the rollback, too, may meet a broken connection, which ends the call elsewhere.
        if given_up:
            call.fail("rolled back")
        else:
            self.remember(call, keys, rows)

    def remember(self, call: Call, keys: list[str], rows: list[tuple[Any, ...]]) -> None:
        created = [key for key, (_, outcome, *_) in zip(keys, rows, strict=True) if outcome == "created"]
        replaced = [key for key, (_, outcome, *_) in zip(keys, rows, strict=True) if outcome == "replaced"]
        self.recent.extend(row[0] for row in rows if row[1] == "created")
        call.ok(created=created, replaced=replaced, ids=[row[0] for row in rows])
