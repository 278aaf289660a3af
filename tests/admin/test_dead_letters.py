from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from django_pgqueue import channel_release, channel_set, enqueue
from django_pgqueue.models import DeadLetter, Message
from tests.admin.conftest import act, address, logged, make_dead, notices


def test_redrive_asks_first(admin_client: Client) -> None:
    letters = make_dead(3)
    response = act(admin_client, "deadletter", "redrive", *(letter.pk for letter in letters))
    text = response.content.decode()
    assert response.status_code == 200
    assert "<h2>3 dead letters</h2>" in text
    assert f"mail.send #{letters[0].pk}: refused" in text
    assert not Message.objects.exists()


@pytest.mark.parametrize("action", ["redrive", "delete_dead"])
def test_the_confirmation_page_counts_dead_letters_by_reason_and_handler(admin_client: Client, action: str) -> None:
    letters = [*make_dead(12, reason="failed"), *make_dead(2, reason="refused"), *make_dead(1, handler="bill.send")]
    act(admin_client, "deadletter", "redrive", letters[0].pk, confirmed="yes")
    text = act(admin_client, "deadletter", action, *(letter.pk for letter in letters)).content.decode()
    table = text.split('<table class="pgqueue-table">')[1].split("</table>")[0]
    cells = re.findall(r"<td>(?:<span[^>]*>)?([^<]*)", table)
    assert cells == [
        "11", "failed", "mail.send",
        "2", "refused", "mail.send",
        "1", "refused", "bill.send",
    ]  # fmt: skip


def test_a_table_of_the_kinds_has_an_end(admin_client: Client) -> None:
    [letter] = make_dead(payload={})
    values = DeadLetter.objects.filter(pk=letter.pk).values().get()
    DeadLetter.objects.bulk_create(
        DeadLetter(**{**values, "id": 1_000_000 + n, "handler": f"h{n:03}"}) for n in range(80)
    )
    everything = {"action": "redrive", "select_across": "1", "_selected_action": "0"}
    page = admin_client.post(address("deadletter"), everything).content.decode()
    text = page.split('<table class="pgqueue-table">')[1].split("</table>")[0]
    assert text.count("<tr>") == 1 + 50 + 1
    assert "and others" in text


def test_redriven_letters_live_again_and_are_marked(admin_client: Client) -> None:
    letters = make_dead(2, payload={"to": "x"})
    response = act(admin_client, "deadletter", "redrive", *(letter.pk for letter in letters), confirmed="yes")
    assert notices(response) == "2 dead letters are redriven."
    lives = dict(Message.objects.values_list("redriven_from", "pk"))
    assert set(lives) == {letter.pk for letter in letters}
    assert logged() == [(f"mail.send #{letter.pk}: refused", "Redriven.", "admin") for letter in letters]
    assert f"redriven as {lives[letters[0].pk]}" in admin_client.get(address("deadletter")).content.decode()


def test_the_page_has_the_error_and_the_payload_first_and_no_empty_fields(admin_client: Client) -> None:
    [letter] = make_dead(payload={"to": "ada@example.org"}, details={"type": "KeyError", "message": "'currency'"})
    DeadLetter.objects.update(dead_at=letter.dead_at - timedelta(hours=2))
    html = admin_client.get(address("deadletter", letter.pk)).text
    names = re.findall(r'<div class="field-(\w+)">', html)
    assert names[:6] == ["reason", "details_shown", "channel_shown", "handler", "fate", "payload_shown"]
    assert names[6] == "story"
    assert not {"headers_shown", "body_shown", "dedupe_key", "backoff", "redriven_at"} & set(names)
    died = html.partition('class="field-dead_at"')[2].partition("</div>")[0]
    assert re.search(r"\d\d:\d\d:\d\d <span class=\"quiet\">2.h( \d.\w+)? ago", died.replace("&nbsp;", " ")), died


def test_a_row_is_one_line_whose_title_has_the_whole_error(admin_client: Client) -> None:
    make_dead(details={"type": "KeyError", "message": "<b> " + "x" * 300})
    html = admin_client.get(address("deadletter")).text
    title = f'title="refused KeyError: &lt;b&gt; {"x" * 300}"'
    assert f'<span class="pgqueue-line" {title}>' in html


def test_a_letter_is_redriven_once(admin_client: Client) -> None:
    [letter] = make_dead()
    for _ in range(2):
        response = act(admin_client, "deadletter", "redrive", letter.pk, confirmed="yes")
    assert notices(response) == "0 dead letters are redriven."
    assert Message.objects.count() == 1
    assert "<h2>0 dead letters</h2>" in act(admin_client, "deadletter", "redrive", letter.pk).content.decode()


def test_a_channel_that_refuses_keeps_no_others_letters_back(admin_client: Client) -> None:
    channel_set(channel="full", max_size=10)
    channel_set(channel="gone")
    kept = [*make_dead(2, channel="full"), *make_dead(1, channel="gone")]
    free = make_dead(2)
    channel_set(channel="full", max_size=1)
    enqueue("mail.send", channel="full")
    channel_release(channel="gone")
    pks = [letter.pk for letter in (*kept, *free)]
    answer = notices(act(admin_client, "deadletter", "redrive", *pks, confirmed="yes"))
    assert "default/full: 2 dead letters stay where they are: channel" in answer
    assert "default/gone: 1 dead letters stay where they are: channel" in answer
    assert answer.endswith("2 dead letters are redriven.")
    assert set(DeadLetter.objects.filter(redriven_at=None)) == set(kept)
    assert [entry[0] for entry in logged()] == [str(letter) for letter in free]


def test_a_redrive_that_is_refused_is_not_scheduled(admin_client: Client) -> None:
    channel_set(channel="gone")
    [letter] = make_dead(channel="gone")
    channel_release(channel="gone")
    answer = notices(act(admin_client, "deadletter", "redrive", letter.pk, confirmed="yes", rate="1"))
    assert answer.endswith("0 dead letters are redriven.")


def test_all_letters_of_a_filter_are_redriven_together(admin_client: Client) -> None:
    make_dead(3, reason="refused")
    others = make_dead(2, reason="failed")
    path = f"{address('deadletter')}?reason=refused"
    posted = {"action": "redrive", "select_across": "1", "_selected_action": "0", "confirmed": "yes"}
    assert notices(admin_client.post(path, posted)) == "3 dead letters are redriven."
    assert set(DeadLetter.objects.filter(redriven_at=None)) == set(others)


def test_more_letters_than_a_batch(admin_client: Client) -> None:
    [letter] = make_dead(payload={})
    values = DeadLetter.objects.filter(pk=letter.pk).values().get()
    DeadLetter.objects.bulk_create(DeadLetter(**{**values, "id": 1_000_000 + n}) for n in range(2_499))
    posted = {"action": "redrive", "select_across": "1", "_selected_action": "0", "confirmed": "yes"}
    assert notices(admin_client.post(address("deadletter"), posted)) == "2500 dead letters are redriven."
    assert Message.objects.count() == 2_500
    assert [text for text, *_ in logged()] == [
        f"1000 dead letters, {letter.pk} to 1000998",
        "1000 dead letters, 1000999 to 1001998",
        "500 dead letters, 1001999 to 1002498",
    ]


def test_the_list_says_what_went_wrong(admin_client: Client) -> None:
    make_dead(details={"type": "FlightCancelled", "message": "no departure time", "traceback": "frames"})
    text = admin_client.get(address("deadletter")).content.decode()
    assert "FlightCancelled: no departure time" in text
    assert "frames" not in text
