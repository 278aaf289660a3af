"""Move jobs: a batch leaves the old table and becomes messages in one transaction, so that each exists once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from django_pgqueue import handlers
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import ChannelFull
from django_pgqueue.importing.source import ImportSource, JobCounts
from django_pgqueue.lifecycle.channel_set import channel_set
from django_pgqueue.lifecycle.enqueue import enqueue_many
from django_pgqueue.outcomes import KEEP
from django_pgqueue.sql.call import call

# Each batch is a transaction: locks are short, and finished batches stay done.
BATCH_JOBS = 500
KNOWN_CHANNELS = """
SELECT c.queue, c.name
FROM pgqueue_channel AS c
JOIN unnest(%s::text[], %s::text[]) AS wanted (queue, name) ON c.queue = wanted.queue AND c.name = wanted.name
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Say how jobs become messages. ``handlers``, ``queues``: new names by old ones; others stay. ``channel``: for jobs
    without a lock. ``unknown``: also move jobs for which the project has no handler. ``stuck``: also move jobs of dead
    workers."""

    handlers: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[str, str] = field(default_factory=dict)
    channel: str = "default"
    unknown: bool = False
    stuck: bool = False

    def handler(self, name: str) -> str:
        """Return the new name of a handler."""
        return self.handlers.get(name, name)

    def takes(self, name: str) -> bool:
        """Return whether jobs of this name are moved."""
        return self.unknown or handlers.find(self.handler(name)) is not None


@dataclass(frozen=True, slots=True)
class Moved:
    """The numbers of jobs that were moved.

    ``created``: jobs that became messages. ``duplicates``: jobs whose dedupe key a live message has already; they are
    settled in the source, too.
    """

    created: int = 0
    duplicates: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.created + other.created, self.duplicates + other.duplicates)


def move_batch(source: ImportSource, plan: Plan, names: Collection[str], using: str) -> Moved | None:
    """Move up to BATCH_JOBS jobs from their queue to ours, in one transaction. Returns None if there was none.

    ``names``: the tasks whose jobs are moved. Raises what
    ``enqueue`` raises, and ChannelFull where a full channel would drop a message; the batch then stays.
    """
    with transaction.atomic(using=using):
        jobs = source.lock(list(names), BATCH_JOBS, using, stuck=plan.stuck)
        if not jobs:
            return None
        messages = [source.message(job, plan.handlers, plan.queues, plan.channel) for job in jobs]
        locks = {(message.queue, job.lock) for message, job in zip(messages, jobs, strict=True) if job.lock}
        make_channels(messages, locks, using)
        answers = enqueue_many(messages, using=using)
        if any(answer.outcome == "dropped" for answer in answers):
            raise ChannelFull(
                "a channel is full and drops messages that do not fit; nothing of this batch was moved",
                hint="Lift its max_size, then import again.",
            )
        source.close(jobs, using)
    created = sum(answer.created for answer in answers)
    return Moved(created, len(answers) - created)


def make_channels(messages: list[NewMessage], locks: Collection[tuple[Any, ...]], using: str) -> None:
    """Create the channels that do not exist. A channel that stands for a lock runs one message at a time."""
    # Each message names its queue.
    wanted = sorted({(message.queue or "default", message.channel) for message in messages})
    known = set(call(using, KNOWN_CHANNELS, ([queue for queue, _ in wanted], [name for _, name in wanted])))
    for queue, name in wanted:
        if (queue, name) not in known:
            one_at_a_time = 1 if (queue, name) in locks else KEEP
            channel_set(channel=name, queue=queue, max_concurrency=one_at_a_time, using=using)


def left(jobs: list[JobCounts], plan: Plan) -> int:
    """Return how many waiting jobs stay, because the project has no handler for them."""
    return sum(job.waiting for job in jobs if not plan.takes(job.name))
