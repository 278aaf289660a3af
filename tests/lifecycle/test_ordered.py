"""An ordered channel delivers its messages strictly one after the other, through every failure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_pgqueue import (
    Delivery,
    NewMessage,
    cancel,
    channel_pause,
    channel_release,
    channel_resume,
    channel_set,
    complete,
    dead_letter,
    defer,
    dequeue,
    discard,
    enqueue,
    enqueue_many,
    lease_release,
    pop,
    redrive,
    reschedule,
    retry,
    sweep,
)
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.dequeue_matching import dequeue_matching
from django_pgqueue.lifecycle.edit import edit
from django_pgqueue.lifecycle.give_back import give_back
from django_pgqueue.lifecycle.purge import purge
from django_pgqueue.lifecycle.repair import repair
from django_pgqueue.models import Channel, DeadLetter
from tests.support.messages import enqueue_backlog, enqueue_numbered, live
from tests.support.moments import expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def ordered() -> int:
    return channel_set(channel="default", ordered=True)


def fail(delivery: Delivery, delay: timedelta = HOUR) -> None:
    retry(delivery, errors=[{"type": "E"}], delays=[delay])


def numbers(deliveries: list[Delivery]) -> list[Any]:
    return [delivery.payload for delivery in deliveries]


def expire_and_sweep(delivery: Delivery) -> None:
    sql("UPDATE pgqueue_message SET backoff = %s, backoff_factor = 1 WHERE id = %s", HOUR, delivery.id)
    expire(delivery)
    sweep()


@pytest.mark.usefixtures("ordered")
class TestAMessageThatIsNotSettledHoldsItsChannel:
    def test_one_message_is_leased_at_a_time_and_in_order(self):
        enqueue_backlog("default", 5)
        for number in range(5):
            [delivery] = dequeue(limit=10)
            assert delivery.payload == number
            assert dequeue(limit=10) == []
            complete(delivery)

    @pytest.mark.parametrize(
        "give_up",
        [fail, lambda delivery: defer(delivery, delay=HOUR), expire_and_sweep],
        ids=["retry", "defer", "expired lease"],
    )
    def test_a_message_that_will_be_delivered_again_is_not_overtaken(self, give_up: Callable[[Delivery], Any]):
        enqueue_backlog("default", 3)
        [first] = dequeue(limit=10)
        place = live(first.id, "dequeue_at")
        give_up(first)
        assert dequeue(limit=10) == []
        assert live(first.id, "dequeue_at") == place
        pass_time(hours=1, seconds=1)
        [again] = dequeue(limit=10)
        assert again.id == first.id
        complete(again)
        assert numbers(dequeue(limit=10)) == [1]

    def test_it_holds_the_channel_when_it_is_alone_too(self):
        enqueue("h", 0)
        fail(dequeue(limit=10)[0])
        enqueue("h", 1)
        assert dequeue(limit=10) == []
        pass_time(hours=1, seconds=1)
        assert numbers(dequeue(limit=10)) == [0]

    def test_it_holds_the_channel_before_a_more_urgent_message(self):
        enqueue("h", "calm")
        fail(dequeue(limit=10)[0])
        enqueue("h", "urgent", priority=9)
        enqueue("h", "early", dequeue_at=timezone.now() - HOUR)
        assert dequeue(limit=10) == []
        pass_time(hours=1, seconds=1)
        served = []
        for _ in range(3):
            [delivery] = dequeue(limit=10)
            served.append(delivery.payload)
            complete(delivery)
        assert served == ["calm", "urgent", "early"]

    def test_it_holds_no_other_channel(self):
        channel_set(channel="other")
        enqueue_backlog("default", 2)
        fail(dequeue(limit=10)[0])
        enqueue_backlog("other", 3)
        assert numbers(dequeue(limit=10)) == [0, 1, 2]

    @pytest.mark.parametrize("back", [defer, give_back, lambda delivery: lease_release(delivery.id)])
    def test_a_message_that_is_given_back_is_the_next(self, back: Callable[[Delivery], Any]):
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        enqueue("h", "urgent", priority=9)
        back(first)
        assert [delivery.id for delivery in dequeue(limit=10)] == [first.id]

    @pytest.mark.parametrize(
        "remove",
        [
            lambda delivery: cancel(delivery.id),
            lambda delivery: discard(delivery.id),
            lambda delivery: purge(channel="default", limit=1),
        ],
        ids=["cancel", "discard", "purge"],
    )
    def test_the_channel_goes_on_when_the_message_is_taken_out(self, remove: Callable[[Delivery], Any]):
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        fail(first)
        assert dequeue(limit=10) == []
        remove(first)
        assert numbers(dequeue(limit=10)) == [1]

    def test_the_channel_goes_on_when_a_full_channel_drops_the_message(self):
        channel_set(channel="default", max_size=2, full_policy="drop_oldest")
        enqueue_numbered(2)
        fail(dequeue(limit=10)[0])
        assert dequeue(limit=10) == []
        enqueue("h", 2)
        assert numbers(dequeue(limit=10)) == [1]

    def test_rescheduled_for_now_it_is_delivered_at_once(self):
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        fail(first)
        assert dequeue(limit=10) == []
        assert reschedule(first.id) == {first.id: "rescheduled"}
        assert [delivery.id for delivery in dequeue(limit=10)] == [first.id]

    def test_rescheduled_for_later_it_goes_on_holding_the_channel(self):
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        fail(first)
        reschedule(first.id, at=timezone.now() + 2 * HOUR)
        pass_time(hours=1, minutes=30)
        assert dequeue(limit=10) == []
        pass_time(minutes=31)
        assert [delivery.id for delivery in dequeue(limit=10)] == [first.id]

    def test_a_waiting_message_that_is_rescheduled_leaves_its_place(self):
        first, *_ = enqueue_numbered(2)
        reschedule(first, at=timezone.now() + HOUR)
        [second] = dequeue(limit=10)
        assert second.payload == 1
        fail(second)
        pass_time(hours=1, seconds=1)
        assert numbers(dequeue(limit=10)) == [1]

    def test_a_message_keeps_its_place_when_its_payload_is_edited(self):
        first, *_ = enqueue_numbered(2)
        assert edit(first, "new") == "edited"
        assert numbers(dequeue(limit=10)) == ["new"]

    def test_a_match_does_not_overtake_the_first_message(self):
        enqueue("first")
        enqueue("second")
        assert dequeue_matching(handler="second", limit=10) == []
        [first] = dequeue_matching(handler="first", limit=10)
        complete(first)
        assert [delivery.handler for delivery in dequeue_matching(handler="second", limit=10)] == ["second"]

    def test_pop_takes_one_after_the_other(self):
        enqueue_backlog("default", 3)
        assert [numbers(pop(limit=10)) for _ in range(4)] == [[0], [1], [2], []]

    def test_a_repair_finds_nothing_while_a_message_is_held(self):
        enqueue_backlog("default", 3)
        fail(dequeue(limit=10)[0])
        assert dequeue(limit=10) == []
        assert repair().places == 0
        assert dequeue(limit=10) == []

    def test_a_sweep_does_not_take_a_held_message_for_one_that_no_worker_picks_up(self):
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        day = timedelta(days=1)
        sql("UPDATE pgqueue_message SET dequeue_at = dequeue_at - %s, created_at = created_at - %s", day, day)
        fail(first, timedelta(0))
        assert sweep().not_picked_up == 0


class TestDeadLetters:
    @pytest.mark.usefixtures("ordered")
    def test_a_dead_letter_lets_the_channel_go_on(self):
        enqueue_backlog("default", 2)
        dead_letter(dequeue(limit=10), reason="refused")
        assert numbers(dequeue(limit=10)) == [1]

    def test_it_pauses_the_channel_if_that_is_its_policy(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 2, max_attempts=1)
        [first] = dequeue(limit=10)
        fail(first)
        assert dequeue(limit=10) == []
        channel = Channel.objects.get(name="default")
        assert channel.paused_at is not None
        assert channel.pause_reason == f"message {first.id} became a dead letter (failed)"
        channel_resume(channel="default")
        assert numbers(dequeue(limit=10)) == [1]

    def test_a_poisonous_message_pauses_it_too(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 2, max_attempts=1)
        expire(*dequeue(limit=10))
        sweep()
        assert dequeue(limit=10) == []
        assert Channel.objects.get(name="default").pause_reason.endswith("(poison)")

    def test_each_dead_letter_pauses_it_once(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 3)
        for number in range(2):
            [delivery] = dequeue(limit=10)
            assert delivery.payload == number
            dead_letter(delivery, reason="refused")
            assert dequeue(limit=10) == []
            channel_resume(channel="default")
        assert numbers(dequeue(limit=10)) == [2]

    def test_the_end_of_an_operators_pause_does_not_end_that_of_a_dead_letter(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        channel_pause(channel="default", reason="lunch", until=timezone.now() + HOUR)
        dead_letter(first, reason="refused")
        pass_time(hours=2)
        sweep()
        assert dequeue(limit=10) == []
        assert Channel.objects.get().pause_reason == f"lunch; message {first.id} became a dead letter (refused)"

    def test_a_redrive_does_not_end_a_pause_that_was_there_before_the_dead_letter(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        channel_pause(channel="default")
        dead_letter(first, reason="refused")
        redrive([first.id])
        assert dequeue(limit=10) == []
        assert Channel.objects.get().pause_reason == f"paused; message {first.id} became a dead letter (refused)"

    def test_a_message_that_an_operator_discards_does_not_pause_its_channel(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 2)
        discard(dequeue(limit=10)[0].id)
        assert numbers(dequeue(limit=10)) == [1]

    def test_the_policy_is_for_ordered_channels(self):
        channel_set(channel="default", on_dead="pause")
        enqueue_backlog("default", 2)
        dead_letter(dequeue(), reason="refused")
        assert numbers(dequeue()) == [1]

    def test_a_redrive_ends_the_pause_and_the_dead_letter_is_the_next(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 3)
        [first] = dequeue(limit=10)
        dead_letter(first, reason="refused")
        assert dequeue(limit=10) == []
        redrive([first.id])
        served = []
        for _ in range(3):
            [delivery] = dequeue(limit=10)
            served.append(delivery.payload)
            complete(delivery)
        assert served == [0, 1, 2]

    def test_a_redrive_leaves_an_operators_pause(self):
        channel_set(channel="default", ordered=True, on_dead="pause")
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        dead_letter(first, reason="refused")
        channel_pause(channel="default", reason="I am looking into it")
        redrive([first.id])
        assert dequeue(limit=10) == []
        channel_resume(channel="default")
        assert numbers(dequeue(limit=10)) == [0]

    @pytest.mark.usefixtures("ordered")
    def test_redriven_messages_come_in_their_old_order_before_those_that_wait(self):
        enqueue_many(NewMessage(handler="h", payload=number) for number in range(6))
        for _ in range(3):
            dead_letter(dequeue(limit=10), reason="refused")
        redrive(reversed([letter.id for letter in DeadLetter.objects.order_by("id")]))
        served = []
        for _ in range(6):
            [delivery] = dequeue(limit=10)
            served.append(delivery.payload)
            complete(delivery)
        assert served == [0, 1, 2, 3, 4, 5]

    @pytest.mark.usefixtures("ordered")
    def test_a_second_redrive_goes_to_the_same_place(self):
        enqueue_numbered(3)
        [first] = dequeue(limit=10)
        place = live(first.id, "dequeue_at")
        dead_letter(first, reason="refused")
        places = []
        letter = first.id
        for _ in range(3):
            [letter] = redrive([letter]).values()
            places.append(live(letter, "dequeue_at"))
            [again] = dequeue(limit=10)
            assert again.id == letter
            fail(again, timedelta(0))
            dead_letter(dequeue(limit=10), reason="refused")
        assert places == [place - timedelta(microseconds=1)] * 3
        assert numbers(dequeue(limit=10)) == [1]

    @pytest.mark.usefixtures("ordered")
    def test_a_redrive_for_later_or_to_another_channel_joins_at_its_time(self):
        channel_set(channel="other", ordered=True)
        enqueue_numbered(3)
        old = []
        for _ in range(2):
            [delivery] = dequeue(limit=10)
            old.append(delivery.id)
            dead_letter(delivery, reason="refused")
        redrive(old[:1], channel="other")
        redrive(old[1:], times=[timezone.now() + HOUR])
        assert sorted((d.channel, d.payload) for d in dequeue(limit=10)) == [("default", 2), ("other", 0)]

    def test_a_redrive_of_a_channel_without_order_joins_at_the_end(self):
        enqueue_numbered(2)
        [first] = dequeue()
        dead_letter(first, reason="refused")
        redrive([first.id])
        assert numbers(dequeue(limit=2)) == [1, 0]


class TestChangesAtRunTime:
    def test_an_ordered_channel_has_a_max_concurrency_of_one(self):
        channel_set(channel="default", max_concurrency=5)
        channel_set(channel="default", ordered=True)
        assert Channel.objects.get().max_concurrency == 1
        channel_set(channel="default", ordered=False)
        assert Channel.objects.get().max_concurrency == 1
        channel_set(channel="default", max_concurrency=None)
        assert Channel.objects.get().max_concurrency is None

    @pytest.mark.parametrize("limit", [5, None])
    def test_it_takes_no_other_limit(self, limit: int | None):
        with refused(InvalidMessage, "it is ordered: its max_concurrency is 1"):
            channel_set(channel="new", ordered=True, max_concurrency=limit)
        channel_set(channel="default", ordered=True)
        with refused(InvalidMessage, "it is ordered"):
            channel_set(channel="default", max_concurrency=limit)
        channel_set(channel="default", ordered=False, max_concurrency=limit)

    def test_the_policy_and_the_order_have_their_types(self):
        with refused(InvalidMessage, "ordered takes bool or None, not 'yes'"):
            channel_set(channel="default", ordered="yes")  # type: ignore[arg-type]
        with refused(InvalidMessage, "on_dead is neither continue nor pause"):
            channel_set(channel="default", on_dead="stop")  # type: ignore[arg-type]

    def test_it_serves_none_until_the_leases_of_before_are_settled(self):
        enqueue_backlog("default", 5)
        leases = dequeue(limit=3)
        channel_set(channel="default", ordered=True)
        for lease in leases:
            assert dequeue(limit=10) == []
            complete(lease)
        assert numbers(dequeue(limit=10)) == [3]

    def test_leases_of_before_that_fail_hold_it_in_their_order(self):
        enqueue_backlog("default", 4)
        leases = dequeue(limit=2)
        channel_set(channel="default", ordered=True)
        fail(leases[1], timedelta(minutes=10))
        fail(leases[0], timedelta(minutes=30))
        assert dequeue(limit=10) == []
        pass_time(minutes=20)
        assert dequeue(limit=10) == []
        pass_time(minutes=11)
        for number in range(3):
            [delivery] = dequeue(limit=10)
            assert delivery.payload == number
            complete(delivery)

    def test_a_held_message_is_a_scheduled_one_when_the_order_ends(self, ordered: int):
        enqueue_backlog("default", 2)
        [first] = dequeue(limit=10)
        fail(first)
        assert dequeue(limit=10) == []
        channel_set(channel="default", ordered=False, max_concurrency=None)
        assert numbers(dequeue(limit=10)) == [1]
        pass_time(hours=1, seconds=1)
        assert numbers(dequeue(limit=10)) == [0]

    def test_a_released_channel_drains_in_order(self, ordered: int):
        enqueue_backlog("default", 3)
        [first] = dequeue(limit=10)
        channel_release(channel="default")
        assert dequeue(limit=10) == []
        fail(first)
        assert dequeue(limit=10) == []
        pass_time(hours=1, seconds=1)
        for number in range(3):
            [delivery] = dequeue(limit=10)
            assert delivery.payload == number
            complete(delivery)

    def test_a_rate_holds_beside_the_order(self, ordered: int):
        channel_set(channel="default", release_interval=timedelta(minutes=1))
        enqueue_backlog("default", 2)
        complete(dequeue(limit=10))
        assert dequeue(limit=10) == []
        pass_time(minutes=1, seconds=1)
        assert numbers(dequeue(limit=10)) == [1]
