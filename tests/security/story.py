"""Every function that clients may call, once, in an order that makes sense; and what each of them answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.sessions import Session

SCHEDULE = "INSERT INTO public.pgqueue_schedule (name, handler, every) VALUES ('hourly', 'report', '1 hour')"
LEASED = "SELECT id, token FROM public.pgqueue_dequeue('default', 1, '1 minute', 'me')"
PLAIN = """
INSERT INTO public.pgqueue_message (channel_id, handler, dequeue_at)
SELECT c.id, 'plain', d.at
FROM public.pgqueue_channel AS c, (VALUES (pg_catalog.clock_timestamp()), ('2100-01-01')) AS d (at)
WHERE c.name OPERATOR(pg_catalog.=) 'small'
"""
CALL = "SELECT {} FROM public.pgqueue_{}"


class Story:
    """The calls of one session. ``called``: the functions so far."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.called: set[str] = set()

    def call(self, what: str, call: str, *parameters: Any) -> list[tuple[Any, ...]]:
        self.called.add("pgqueue_" + call.partition("(")[0])
        return self.session.execute(CALL.format(what, call), parameters).fetchall()

    def leased(self) -> tuple[list[int], list[Any]]:
        [(message, token)] = self.call("id, token", "dequeue('default', 1, '1 minute', 'me')")
        return [message], [token]

    def answers(self) -> Iterator[Any]:
        yield from self.configure()
        yield from self.settle()
        yield from self.operate()
        yield from self.flow()
        yield from self.load()

    def configure(self) -> Iterator[Any]:
        self.call("*", "channel_set('default', 'small', '{\"max_size\": 50, \"max_concurrency\": 5}')")
        for verb in ("pause", "resume"):
            yield self.call("*", f"channel_{verb}('default', 'small')")
        yield self.call("*", "queue_pause('default', 'why')")
        yield self.call("*", "queue_resume('default')")
        yield self.call("*", "queue_set('default', '{\"archive\": \"full\"}')")
        yield from self.limit()
        self.session.execute("UPDATE public.pgqueue_channel SET weight = 2")
        self.session.execute(PLAIN)
        yield self.call("outcome", "enqueue('one', p_dedupe_key => 'k', p_create_channel => true, p_channel => 'new')")
        yield self.call("outcome", "enqueue_many(ARRAY['a', 'b', 'c'], ARRAY['{}', '1', '[]']::jsonb[])")
        for _ in range(2):
            yield self.call("outcome", """enqueue_unique('{"key": "k", "window": "1 hour"}', 'unique')""")
        yield self.call("handler", "peek('default', 'small')")
        yield self.call("ready, scheduled, total", "metrics()")
        yield self.call("code", "explain_channel('default', 'small')")
        [(message,)] = self.session.execute("SELECT id FROM public.pgqueue_message ORDER BY id LIMIT 1").fetchall()
        yield self.call("code", "explain_message(%s)", message)
        yield self.call("queue, ready, complete", "health()")
        yield self.call("kind, name, waiting", "limit_health()")
        yield self.call("queue, channel", "waiting()")
        yield self.call("handler, state", "breakers()")
        yield self.call("channel, problem", "find_unreachable()")
        yield self.call("*", "repair()")
        yield self.call("*", "remove_released()")
        yield self.call("counted", "measure('0')")
        yield self.call("*", "next_due('{default}')")
        yield self.call("*", "is_contended('{default}')")
        self.call("*", "wait('me', '{default}', '1 second')")

    def limit(self) -> Iterator[Any]:
        settings = '{"max_concurrency": 2, "release_interval": "1 hour", "handlers": ["nobody"]}'
        yield self.call("outcome", "limit_set('stripe', %s)", settings)
        yield self.call("outcome", "limit_set('stripe', '{\"max_cost\": 5, \"handlers\": []}')")
        yield self.call("*", "limit_pause('stripe', 'why')")
        yield self.call("*", "limit_resume('stripe')")
        yield self.call("*", "limit_drop('stripe')")
        yield self.call("*", "handler_pause('nobody', 'why')")
        yield self.call("*", "handler_resume('nobody')")
        breaker = '{"failures": 2, "within": "1 minute", "pause": "1 hour", "per": "channel"}'
        yield self.call("outcome", "breaker_set('h', %s)", breaker)
        yield self.call("outcome", "breaker_open('h', 'default', 'small')")
        yield self.call("handler, queue, channel", "open_breakers('{h}', '{default}', '{small}')")
        yield self.call("change, handler", "breaker_changes()")
        yield self.call("outcome", "breaker_close('h', 'default', 'small')")
        yield self.call("outcome", "breaker_set('h', NULL)")

    def settle(self) -> Iterator[Any]:
        ids, tokens = self.leased()
        yield len(self.call("id", "heartbeat(%s, %s, '1 minute')", ids, tokens))
        yield self.call("*", "spend(%s, %s, 3)", ids[0], tokens[0])
        yield len(self.call("*", "complete(%s, %s)", ids, tokens))
        yield len(self.call("*", "keep_logs(%s, %s, ARRAY[1], ARRAY['\"log\"']::jsonb[])", ids[:1], tokens[:1]))
        yield [row[1] for row in self.call("id, outcome", "defer(%s, %s)", *self.leased())]
        unknown = "defer_unknown(%s, %s, ARRAY['{}']::jsonb[], '10 minutes')"
        yield [row[1] for row in self.call("id, outcome", unknown, *self.leased())]
        yield [row[1] for row in self.call("id, outcome", "retry(%s, %s, ARRAY['{}']::jsonb[])", *self.leased())]
        ids, tokens = self.leased()
        yield len(self.call("*", "dead_letter(%s, %s, ARRAY['no'])", ids, tokens))
        yield len(self.call("*", "redrive(%s)", ids))
        yield len(self.call("*", "pop('default', 1)"))
        yield len(self.call("*", "dequeue_matching('default', 1, p_handler => 'nobody')"))

        yield from self.hold()

    def hold(self) -> Iterator[Any]:
        self.call("*", "channel_set('lines', 'line', '{\"ordered\": true}')")
        self.call("*", "enqueue('h', p_channel => 'line', p_queue => 'lines')")
        [(message, token)] = self.call("id, token", "dequeue('lines', 1, '1 minute', 'me')")
        yield len(self.call("*", "retry(%s, %s, ARRAY['{}']::jsonb[])", [message], [token]))
        yield self.call("queue, channel", "held_channels()")

    def operate(self) -> Iterator[Any]:
        self.session.execute(SCHEDULE)
        yield self.call("outcome", "schedule_run('hourly')")
        self.session.execute("UPDATE public.pgqueue_schedule SET every = '2 hours'")
        plan = "SELECT id, xmin::text::bigint FROM public.pgqueue_schedule"
        schedule, version = self.session.execute(plan).fetchone()
        fire = "schedule_fire(%s, %s, ARRAY['2020-01-01'::timestamptz], '2100-01-01')"
        yield self.call("outcome", fire, schedule, version)
        yield self.call("*", "schedule_prune('1 hour')")
        [(message,)] = self.call("id", "enqueue('mine')")
        yield self.call("outcome", "cancel(ARRAY[%s::bigint], 'why')", message)
        self.call("*", "enqueue('mine', p_delay => '1 hour')")
        [(later,)] = self.call("id", "enqueue('mine', p_delay => '1 hour')")
        yield self.call("*", "edit(%s, '7')", later)
        yield self.call("outcome", "reschedule(ARRAY[%s::bigint])", later)
        yield self.call("outcome", "lease_release(%s, 'why')", self.leased()[0])
        yield self.call("outcome", "discard(ARRAY[%s::bigint], 'why')", later)
        yield self.call("outcome", "delete_dead(ARRAY[%s::bigint])", later)
        yield self.call("*", "channel_purge('default', 'default')")
        self.call("*", "enqueue('mine')")
        yield self.call("*", "queue_purge('default')")
        yield self.call("retried, poisoned", "sweep()")
        self.call("*", "tick()")
        self.call("*", "prune()")
        self.call("*", "prune_queues()")
        yield self.call("*", "lake_exported('lake', '/lake', 7, '{}')")

    def flow(self) -> Iterator[Any]:
        follower = '{"handler": "after", "channel": "default", "queue": "default", "create_channel": true}'
        with self.session.transaction():
            [(batch,)] = self.call("*", "batch_open(%s)", follower)
            self.session.execute(PLAIN)
            yield self.call("*", "batch_seal(%s)", batch)
        with self.session.transaction():
            yield self.call("*", "batch_enter(%s)", batch)
        with self.session.transaction():
            nowhere = follower.replace("true", "false").replace('"default"', '"no"')
            [(refused,)] = self.call("*", "batch_open(%s)", nowhere)
            self.call("*", "batch_seal(%s)", refused)
        yield self.call("total, outstanding, lost", "batch_counts(ARRAY[%s::bigint])", batch)
        yield self.call("problem", "batch_check()")
        [(awaited,)] = self.call("id", "enqueue('awaited', p_channel => 'small')")
        yield self.call("outcome", "enqueue_after(ARRAY[%s::bigint], 'wait', 'waits')", awaited)
        [message], [token] = self.leased()
        yield self.call("outcome", "after_results(%s, %s)", message, token)
        yield self.call("*", "progress(%s, %s, 1, 2, 'half')", message, token)
        yield self.call("place, done", "progress_of(ARRAY[%s::bigint])", message)
        yield self.call("*", "step_keep(%s, %s, 'step', 'charge', '1')", message, token)
        yield self.call("name, value", "steps(%s, %s)", message, token)
        yield self.call("*", "step_event(%s, %s, 'sent')", message, token)
        yield self.call("outcome", "step_pause(%s, %s, 'wait', 'sent', '1 day')", message, token)
        yield self.call("*", "notify_event('sent', '7')")

    def load(self) -> Iterator[Any]:
        [(stage,)] = self.call("*", "ingest_open('job', 0, '{\"handler\": \"bulk\"}')")
        self.session.execute(f"INSERT INTO public.pgqueue_stage_{stage} (payload) VALUES ('1'), ('2')")
        yield self.call("*", "ingest('job', 0, %s, 2)", [stage])
        yield self.call("*", "ingest_clean('job')")
        yield self.call("*", "channel_release('default', 'small')")
        yield self.call("removed, outcome", "channel_erase('default', 'small')")
        at_the_end = "channel_erase('default', 'small', p_after => '{\"table\": \"pgqueue_e\"}')"
        yield self.call("removed, outcome", at_the_end)
        self.call("*", "channel_set('gone', 'default')")
        yield self.call("*", "queue_drop('gone')")
