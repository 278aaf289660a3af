"""How far a handler is: written under the lease, read by others, and kept with the archive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.signing import BadSignature

from django_pgqueue import channel_erase, channel_set, complete, dequeue, enqueue, lease_release, prune
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.flow import Progress, id_of_token, progress, progress_of, progress_token, reporting
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each call write; the pause has a test of its own."""
    monkeypatch.setattr(reporting, "PAUSE_SECONDS", 0.0)


def taken(**options: Any) -> Delivery[Any]:
    enqueue("job", **options)
    [delivery] = dequeue()
    return delivery


def test_it_is_read_while_the_handler_runs_and_after_it():
    answer = enqueue("job")
    assert progress_of(answer) == Progress(answer.id, "ready", None, None, "", None)
    [delivery] = dequeue()
    assert progress(delivery, 31, of=40, note="rows of März")
    found = progress_of(answer)
    assert (found.place, found.done, found.total, found.note, found.part) == ("leased", 31, 40, "rows of März", 0.775)
    progress(delivery, 40, of=40)
    complete(delivery)
    found = progress_of(answer.id)
    assert (found.place, found.done, found.note) == ("settled", 40, "")
    assert progress_of(10**12).place == "not_found"


def test_a_project_without_the_app_hears_what_to_install(settings: Any):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_pgqueue.flow"]
    with pytest.raises(ImproperlyConfigured, match=r'progress_of needs an app: add "django_pgqueue.flow"'):
        progress_of(1)


@pytest.mark.parametrize(
    ("done", "of", "part"), [(1, None, None), (5, 0, None), (9, 8, 1.0), (-1, 8, 0.0), (1, 4, 0.25)]
)
def test_the_part_that_is_done(done: float, of: float | None, part: float | None):
    delivery = taken()
    progress(delivery, done, of=of)
    assert progress_of(delivery.id).part == part


def test_a_lease_writes_once_a_second_and_the_end_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reporting, "PAUSE_SECONDS", 60.0)
    delivery, other = taken(), taken()
    assert progress(delivery, 1, of=3)
    assert not progress(delivery, 2, of=3)
    assert progress(other, 2, of=3)
    assert progress_of(delivery.id).done == 1
    assert progress(delivery, 3, of=3)
    assert progress_of(delivery.id).done == 3


def test_a_lost_lease_writes_nothing():
    old = taken()
    progress(old, 1)
    lease_release(old.id)
    [new] = dequeue()
    assert new.id == old.id
    with pytest.raises(LeaseLost):
        progress(old, 2)
    progress(new, 3)
    assert progress_of(new.id).done == 3
    joined = "pgqueue_progress AS p JOIN pgqueue_message AS m ON m.id = p.message_id"
    assert sql(f"SELECT p.leased_at = m.leased_at FROM {joined}") == [(True,)]
    complete(new)
    with pytest.raises(LeaseLost):
        progress(new, 4)


def test_a_write_that_was_under_way_does_not_overwrite_that_of_a_later_lease():
    """The token was right when the statement began; the later lease has written before it."""
    delivery = taken()
    progress(delivery, 3)
    sql("UPDATE pgqueue_progress SET leased_at = leased_at + interval '1 second'")
    with pytest.raises(LeaseLost):
        progress(delivery, 2)
    assert progress_of(delivery.id).done == 3


def test_updates_stay_in_their_page():
    delivery = taken()
    for done in range(20):
        progress(delivery, done, note="x" * 100)
    sql("SELECT pg_stat_force_next_flush()")
    [(updates, hot)] = sql(
        "SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c) "
        "FROM (SELECT 'pgqueue_progress'::regclass) AS t (c)"
    )
    assert hot == updates >= 19


def test_a_long_note_is_cut_off():
    delivery = taken()
    progress(delivery, 1, note="ä" * 600)
    assert progress_of(delivery.id).note == "ä" * 500


def test_an_erased_tenant_leaves_no_note():
    channel_set(channel="tenant")
    delivery = taken(channel="tenant")
    progress(delivery, 1, note="secret")
    other = taken()
    progress(other, 1)
    complete(delivery)
    channel_erase(queue="default", channel="tenant")
    assert sql("SELECT message_id FROM pgqueue_progress") == [(other.id,)]


def test_a_prune_deletes_it_with_the_archive(settings: Any):
    done, live = taken(), taken()
    for delivery in (done, live):
        progress(delivery, 1)
    complete(done)
    prune()
    assert progress_of(done.id).done == 1
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(0)}
    prune()
    assert sql("SELECT message_id FROM pgqueue_progress") == [(live.id,)]


def test_a_token_names_a_message():
    answer = enqueue("job")
    token = progress_token(answer)
    assert id_of_token(token) == answer.id
    for forged in (token[:-1] + ("a" if token[-1] != "a" else "b"), str(answer.id), ""):
        with pytest.raises(BadSignature):
            id_of_token(forged)
    with pytest.raises(BadSignature):
        id_of_token(token, max_age=timedelta(seconds=-1))
