"""Actions from the page of one object: who may perform them, and which requests perform none."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_pgqueue import enqueue
from django_pgqueue.models import Channel, Message, Schedule
from tests.admin.actions import (
    ACTIONS,
    ALLOWED,
    CONFIRMED,
    client_with_csrf_checks,
    everything,
    other_permissions,
    subject,
)
from tests.admin.conftest import VIEW, address
from tests.admin.object_page import buttons, press, reset
from tests.support.cases import cases


def test_a_viewer_has_no_buttons_and_can_do_nothing(viewer: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert buttons(viewer, model, pk) == {}, (model, action)
        for data in ({}, CONFIRMED):
            assert press(viewer, model, pk, action, **data).status_code == 403
            assert viewer.get(address(model, pk), {"action": action, **data}).status_code == 200
    assert everything() == before
    assert not LogEntry.objects.exists()


@cases(("model", "action"), ACTIONS)
def test_an_act_needs_its_own_permission_and_that_to_look(
    model: str, action: str, staff: Callable[..., Client], one_of_each: dict[str, int]
) -> None:
    if action == "pause":
        reset(model)
    others = other_permissions(model, action)
    pk = subject(one_of_each, model, action)
    before = everything()
    stranger = staff(*VIEW, *others)
    assert action not in buttons(stranger, model, pk)
    assert press(stranger, model, pk, action, **CONFIRMED).status_code == 403
    if not ALLOWED[model, action].startswith("change"):
        assert press(staff(ALLOWED[model, action]), model, pk, action, **CONFIRMED).status_code == 403
    assert everything() == before
    owner = staff(*VIEW, ALLOWED[model, action])
    assert action in buttons(owner, model, pk)
    assert press(owner, model, pk, action, **CONFIRMED).status_code == 302
    assert everything() != before
    assert LogEntry.objects.exists()


def test_a_post_without_csrf_token_does_nothing(admin_user: User, one_of_each: dict[str, int]) -> None:
    client = client_with_csrf_checks(admin_user)
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert press(client, model, pk, action, **CONFIRMED).status_code == 403
    assert everything() == before


def test_an_act_is_never_done_by_get(admin_client: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert admin_client.get(address(model, pk), {"action": action, **CONFIRMED}).status_code == 200
    assert everything() == before


@cases("action", ["", "delete_selected", "perform", "__class__", "run_batch"])
def test_only_actions_are_acts(admin_client: Client, action: str) -> None:
    Schedule.objects.all().delete()
    schedule = Schedule.objects.create(name="nightly", handler="mail.send", cron="@daily")
    response = press(admin_client, "schedule", schedule.pk, action, post="yes", **CONFIRMED)
    assert response.status_code in (302, 403)
    assert Schedule.objects.get() == schedule
    assert press(admin_client, "message", enqueue("a").id, action, **CONFIRMED).status_code == 403
    assert Message.objects.exists()


def test_a_popup_has_no_buttons(admin_client: Client) -> None:
    pk = Channel.objects.get().pk
    assert b"pgqueue-actions" not in admin_client.get(address("channel", pk), {"_popup": "1"}).content
    assert press(admin_client, "channel", pk, "release", "?_popup=1", confirmed="yes").status_code == 403
