"""The sleep of the producer, which other threads and data on a socket end."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from django_pgqueue.worker.shutdown import Alarm
from tests.support.waiting import PATIENCE_SECONDS


def seconds_of(wait: Callable[[], object]) -> float:
    began = time.monotonic()
    wait()
    return time.monotonic() - began


@pytest.mark.parametrize("call", ["set", "keep_awake"])
def test_a_call_before_the_sleep_ends_it_until_it_is_cleared(call: str) -> None:
    alarm = Alarm()
    getattr(alarm, call)()
    for _ in range(2):
        assert alarm.is_set()
        assert seconds_of(lambda: alarm.wait(PATIENCE_SECONDS)) < PATIENCE_SECONDS / 2
    alarm.clear()
    assert not alarm.is_set()
    assert seconds_of(lambda: alarm.wait(0.1)) >= 0.09


def test_another_thread_ends_the_sleep() -> None:
    alarm = Alarm()
    threading.Timer(0.1, alarm.set).start()
    assert seconds_of(lambda: alarm.wait(PATIENCE_SECONDS)) < PATIENCE_SECONDS / 2
    assert alarm.is_set()


def test_data_on_the_socket_ends_the_sleep() -> None:
    alarm = Alarm()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not alarm.wait(0.01, ours.fileno())
        theirs.send(b"x")
        assert alarm.wait(PATIENCE_SECONDS, ours.fileno())
        assert not alarm.is_set()


def test_a_call_that_a_clear_has_overtaken_wakes_once_and_not_again_and_again() -> None:
    alarm = Alarm()
    alarm.set()
    # As if clear() had run between the flag and the byte of set().
    alarm._set = alarm._written = False
    assert seconds_of(lambda: alarm.wait(PATIENCE_SECONDS)) < PATIENCE_SECONDS / 2
    assert seconds_of(lambda: alarm.wait(0.1)) >= 0.09


def test_no_call_of_many_threads_is_lost() -> None:
    alarm, calls, seen = Alarm(), 2000, 0
    counts = [0] * 4

    def call(number: int) -> None:
        for _ in range(calls):
            counts[number] += 1
            alarm.set()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while seen < calls * len(counts) and time.monotonic() < deadline:
        alarm.wait(PATIENCE_SECONDS)
        alarm.clear()
        seen = sum(counts)
    assert seen == calls * len(counts)
    for thread in threads:
        thread.join()


def test_its_pipe_is_closed_with_it() -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(10):
        Alarm().set()
    assert len(os.listdir("/dev/fd")) <= before + 2
