"""The permissions of users. The pages are the only place where these permissions are asked for."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_pgqueue.models import Channel
from tests.admin.actions import (
    ACTIONS,
    ALLOWED,
    CONFIRMED,
    client_with_csrf_checks,
    everything,
    other_permissions,
    subject,
)
from tests.admin.conftest import MODELS, VIEW, act, address
from tests.support.cases import cases


@cases("model", MODELS)
def test_no_page_is_seen_without_the_view_permission(
    model: str, staff: Callable[..., Client], one_of_each: dict[str, int]
) -> None:
    client = staff()
    assert client.get(address(model)).status_code == 403
    assert client.get(address(model, one_of_each[model])).status_code == 403


@cases("model", MODELS)
def test_a_viewer_sees_lists_and_objects(model: str, viewer: Client, one_of_each: dict[str, int]) -> None:
    assert viewer.get(address(model)).status_code == 200
    response = viewer.get(address(model, one_of_each[model]))
    assert response.status_code == 200
    assert b'name="_save"' not in response.content


def test_a_viewer_is_offered_no_action(viewer: Client, one_of_each: dict[str, int]) -> None:
    for model in MODELS:
        assert b'name="action"' not in viewer.get(address(model)).content, model


def test_a_viewer_can_change_nothing(viewer: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        for data in (
            {},
            CONFIRMED,
            {**CONFIRMED, "select_across": "1"},
        ):
            pk = subject(one_of_each, model, action)
            act(viewer, model, action, pk, **data)
            viewer.get(address(model), {"action": action, "_selected_action": pk, **CONFIRMED})
    for model in MODELS:
        change = address(model, one_of_each[model])
        assert viewer.post(change, {"weight": "9", "name": "stolen", "_save": "Save"}).status_code == 403
        assert viewer.post(change.replace("/change/", "/delete/"), {"post": "yes"}).status_code == 403
        assert viewer.post(f"{address(model)}add/", {"name": "new", "queue": "default"}).status_code == 403
    assert everything() == before
    assert not LogEntry.objects.exists()


@cases(("model", "action"), ACTIONS)
def test_an_action_needs_its_own_permission(
    model: str, action: str, staff: Callable[..., Client], one_of_each: dict[str, int]
) -> None:
    others = other_permissions(model, action)
    before = everything()
    pk = subject(one_of_each, model, action)
    act(staff(*VIEW, *others), model, action, pk, **CONFIRMED)
    assert everything() == before
    act(staff(*VIEW, ALLOWED[model, action]), model, action, pk, **CONFIRMED)
    assert everything() != before


def test_a_post_without_csrf_token_does_nothing(admin_user: User, one_of_each: dict[str, int]) -> None:
    client = client_with_csrf_checks(admin_user)
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        assert act(client, model, action, pk, **CONFIRMED).status_code == 403
    assert everything() == before


def test_an_action_is_never_done_by_get(admin_client: Client, one_of_each: dict[str, int]) -> None:
    before = everything()
    for model, action in ACTIONS:
        pk = subject(one_of_each, model, action)
        admin_client.get(address(model), {"action": action, "_selected_action": pk, **CONFIRMED})
    assert everything() == before


@cases("model", ["message", "archivedmessage", "deadletter", "worker", "queuemetric"])
def test_no_user_edits_a_row_that_belongs_to_the_functions(
    model: str, admin_client: Client, one_of_each: dict[str, int]
) -> None:
    before = everything()
    change = address(model, one_of_each[model])
    assert admin_client.post(change, {"handler": "other", "_save": "Save"}).status_code == 403
    assert admin_client.post(change.replace("/change/", "/delete/"), {"post": "yes"}).status_code == 403
    assert admin_client.get(f"{address(model)}add/").status_code == 403
    assert everything() == before


def test_a_channel_cannot_be_deleted(admin_client: Client, one_of_each: dict[str, int]) -> None:
    delete = address("channel", one_of_each["channel"]).replace("/change/", "/delete/")
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    act(admin_client, "channel", "delete_selected", one_of_each["channel"], post="yes")
    assert Channel.objects.filter(pk=one_of_each["channel"]).exists()
