"""As many as after a bad night: a page that redrives them ends in time."""

from __future__ import annotations

import time

import pytest
from django.db import connection
from django.test import Client

from django_pgqueue.models import DeadLetter, Message
from tests.admin.conftest import address, logged, make_dead, notices

COPIES = """
INSERT INTO pgqueue_dead_letter
SELECT (jsonb_populate_record(d, jsonb_build_object('id', 1000000 + n))).*
FROM pgqueue_dead_letter AS d, generate_series(1, %s) AS n
WHERE d.id = %s
"""


@pytest.mark.slow
def test_100000_dead_letters_are_redriven_from_the_page(admin_client: Client) -> None:
    [letter] = make_dead(payload={"to": "x" * 200}, details={"message": "refused", "traceback": "frames\n" * 100})
    with connection.cursor() as cursor:
        cursor.execute(COPIES, [99_999, letter.pk])
    posted = {"action": "redrive", "select_across": "1", "_selected_action": "0", "index": "0"}
    requests = []
    for _ in range(20):
        begun = time.monotonic()
        response = admin_client.post(f"{address('deadletter')}?redriven=no", posted)
        requests.append(time.monotonic() - begun)
        if response.status_code == 302:
            break
        posted = dict(response.context["hidden"]) | {"rate": ""}
    # A web server gives a request 30 seconds, as a rule.
    assert max(requests) < 30
    assert not DeadLetter.objects.filter(redriven_at=None).exists()
    assert Message.objects.count() == 100_000
    assert sum(int(text.split()[0]) for text, *_ in logged()) == 100_000
    assert "dead letters are redriven" in notices(response)
    print("seconds of the requests:", [round(seconds, 1) for seconds in requests])
