"""A worker's processes fail and are killed: an ordered channel stays in order."""

from __future__ import annotations

import os
import signal

from django_pgqueue import channel_set
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.processes import process_exists
from tests.support.waiting import eventually
from tests.worker.conftest import effects, script, scripts
from tests.worker.test_supervisor import Spawn, pids


def test_the_order_holds_when_handlers_fail_and_processes_are_killed(spawn: Spawn) -> None:
    channel_set(channel="default", queue="default", ordered=True)
    sent = []
    for number in range(60):
        fails = ["first", ["raise", "retry", 0.01]] if number % 3 == 0 else ["sleep", 0.001]
        sent.append(script(["effect"], fails, ["sleep", 0.005], max_attempts=50))
    spawn("--lease", "600", processes=2)
    for done in (10, 25, 40):
        eventually(lambda done=done: ArchivedMessage.objects.count() > done)
        # The row of one that was killed before may still be there.
        os.kill(eventually(lambda: [pid for pid in pids() if process_exists(pid)])[0], signal.SIGKILL)
    eventually(lambda: not Message.objects.exists())
    done = [message for message, _ in effects()]
    assert done == sorted(done), "a message has no effect before the one ahead of it is settled"
    assert sorted(set(done)) == sent
    assert len(done) >= 80, "those that failed were tried again"


def test_a_message_that_kills_its_process_stops_the_channel(spawn: Spawn) -> None:
    channel_set(channel="default", queue="default", ordered=True, on_dead="pause")
    poison = script(["effect"], ["kill"], max_attempts=2)
    waiting = scripts(3, ["effect"])
    spawn("--lease", "600", processes=1)
    eventually(lambda: DeadLetter.objects.filter(id=poison).exists())
    letter = DeadLetter.objects.get()
    channel = Message.objects.filter(id__in=waiting)[0].channel
    assert channel.pause_reason == f"message {poison} became a dead letter ({letter.reason})"
    assert effects() == [(poison, 1), (poison, 2)]
    assert Message.objects.filter(id__in=waiting, attempts=0).count() == 3
