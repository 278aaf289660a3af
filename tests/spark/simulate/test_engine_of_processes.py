"""Worker processes lease ahead for themselves: small cases whose answer can be computed by hand. Milliseconds."""

from __future__ import annotations

from django_pgqueue.spark.simulate.engine import Simulation
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import ChannelLimits
from tests.spark.simulate.test_engine import message

MILLISECOND = 1_000


def runs_of(*milliseconds: int) -> list[SimulatedMessage]:
    return [message(number, run=run * MILLISECOND) for number, run in enumerate(milliseconds, 1)]


def waits(messages: list[SimulatedMessage], processes: int, slots: int, **limits: ChannelLimits) -> dict[int, int]:
    """Return the waits in milliseconds; each process dequeues 100 messages at most."""
    found: dict[int, int] = {}

    def record(served: SimulatedMessage, waited: int) -> None:
        found[served.id] = waited // MILLISECOND

    Simulation(limits, slots, record, ahead=100 * processes, processes=processes).run(messages)
    return found


def test_a_message_waits_in_the_memory_of_its_process_beside_one_that_is_idle() -> None:
    """After a run of 50 ms a process has five messages: one that runs, and those of the next 0.2 s. The first process
    takes 3 to 7, the second one 8 to 12. Number 3 takes a second, and so 4 to 7 wait for it.
    """
    found = waits(runs_of(50, 50, 1000, *[50] * 9), processes=2, slots=2)
    assert found == {
        1: 0, 2: 0,
        3: 50, 4: 1050, 5: 1100, 6: 1150, 7: 1200,
        8: 50, 9: 100, 10: 150, 11: 200, 12: 250,
    }  # fmt: skip


def test_one_process_with_all_slots_gives_them_to_whichever_message_is_next() -> None:
    found = waits(runs_of(50, 50, 1000, *[50] * 9), processes=1, slots=2)
    assert found == {1: 0, 2: 0, 3: 50, 4: 50, 5: 100, 6: 150, 7: 200, 8: 250, 9: 300, 10: 350, 11: 400, 12: 450}


def test_processes_share_what_comes_at_once() -> None:
    """Before a handler has run, a process asks for as many as it has slots: two each."""
    found = waits(runs_of(*[100] * 6), processes=2, slots=4)
    assert found == {1: 0, 2: 0, 3: 0, 4: 0, 5: 100, 6: 100}


def test_a_message_in_the_memory_of_a_process_takes_a_place_of_its_channel() -> None:
    """With two at a time, the first process leases 3 and 4 at 50 ms, and number 4 waits for its only slot; the second
    one gets nothing more, although it is idle.
    """
    found = waits(runs_of(50, 50, 200, 50, 50), processes=2, slots=2, a=ChannelLimits(max_concurrency=2))
    assert found == {1: 0, 2: 0, 3: 50, 4: 250, 5: 250}
