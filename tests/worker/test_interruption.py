"""How a handler is interrupted that runs in a thread."""

from __future__ import annotations

import ctypes
import threading
import time

import pytest

from django_pgqueue.exceptions import HandlerTimeout
from django_pgqueue.worker.interruption import ThreadRun
from tests.worker.test_timeouts import spin


def make_run(timeout: float) -> ThreadRun:
    return ThreadRun(timeout, give_up=lambda: None, wake=lambda: None)


class TestInterruption:
    """The exception comes out of the handler, or it does not come at all."""

    def test_it_never_arrives_outside_of_the_handler(self) -> None:
        outcomes = {"in time": 0, "interrupted": 0}

        def work(until: float) -> None:
            while time.monotonic() < until:
                pass

        def interrupter(runs: list[ThreadRun | None]) -> None:
            while (run := runs[0]) is not None:
                if time.monotonic() >= run.deadline and not run.interrupted:
                    run.interrupt()

        runs: list[ThreadRun | None] = [make_run(3600)]
        thread = threading.Thread(target=interrupter, args=(runs,))
        thread.start()
        try:
            for _ in range(500):
                run = runs[0] = make_run(0.001)
                try:
                    # About as long as the timeout: now and then it is interrupted at the very end.
                    run.call(work, run.deadline + 0.00002)
                    outcomes["in time"] += 1
                except HandlerTimeout:
                    outcomes["interrupted"] += 1
        finally:
            runs[0] = None
            thread.join()
        assert all(outcomes.values()), outcomes

    def test_an_exception_that_the_handler_makes_of_an_interruption_is_a_timeout_all_the_same(self) -> None:
        run = make_run(0.0)

        def translate(argument: None) -> None:
            try:
                threading.Timer(0.01, run.interrupt).start()
                spin(argument)
            except HandlerTimeout:
                raise ValueError("nothing to see here") from None

        with pytest.raises(HandlerTimeout, match="timeout of 0:00:00") as raised:
            run.call(translate, None)
        assert isinstance(raised.value.__cause__, ValueError)

    def test_a_server_that_does_not_answer_the_cancel_does_not_stop_the_interrupter(self) -> None:
        answered, seen = threading.Event(), []
        run = ThreadRun(0.0, give_up=lambda: None, wake=lambda: None if answered.wait(5) else answered.set())

        def interrupt() -> None:
            run.interrupt()
            seen.append(answered.is_set())
            answered.set()

        def work(argument: None) -> None:
            threading.Thread(target=interrupt).start()
            spin(argument)

        with pytest.raises(HandlerTimeout):
            run.call(work, None)
        assert seen == [False]

    def test_no_handler_is_interrupted_after_its_end(self) -> None:
        run = make_run(0.0)
        run.call(lambda argument: None, None)
        run.interrupt()
        assert not run.interrupted
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None) == 1
