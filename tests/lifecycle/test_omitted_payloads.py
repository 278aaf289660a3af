"""A message without a payload has an empty object, and None is JSON's null."""

import pytest
from django.db import connection

from django_pgqueue import Delivery, NewMessage, dequeue, enqueue, enqueue_many, handler, schedule_run
from django_pgqueue.models import Channel, Message, Schedule
from django_pgqueue.signals import message_created
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("handlers_restored")
def test_a_message_without_a_payload_has_an_empty_object_however_it_is_enqueued():
    @handler("h")
    def take(delivery: Delivery): ...

    channel = Channel.objects.get(name="default")
    enqueue("h")
    take.enqueue()
    enqueue_many([NewMessage(handler="h"), NewMessage(handler="h", limits=[])])
    sql("SELECT pgqueue_enqueue('h')")
    Message.objects.create(channel=channel, handler="h")
    Message.objects.bulk_create([Message(channel=channel, handler="h")])
    sql("INSERT INTO pgqueue_message (channel_id, handler) VALUES (%s, 'h')", channel.pk)
    with connection.cursor() as cursor, cursor.copy("COPY pgqueue_message (channel_id, handler) FROM STDIN") as copy:
        copy.write_row((channel.pk, "h"))
    Schedule.objects.create(name="s", handler="h", cron="@daily")
    schedule_run("s")
    assert [delivery.payload for delivery in dequeue(limit=20)] == [{}] * 10


def test_each_message_without_a_payload_has_an_object_of_its_own():
    def spoil(message: NewMessage, **given: object) -> None:
        message.payload["spoilt"] = True

    message_created.connect(spoil)
    try:
        enqueue("h")
        enqueue_many([NewMessage(handler="h")])
    finally:
        message_created.disconnect(spoil)
    enqueue("h")
    assert [delivery.payload for delivery in dequeue(limit=3)] == [{}] * 3
