"""Checks of database routers, and of the pipeline without its app."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from tests.schema.test_checks import ours


class Elsewhere:
    def db_for_write(self, model: type, **hints: Any) -> str:
        return "elsewhere"


def test_routers_that_send_messages_elsewhere() -> None:
    with override_settings(DJANGO_PGQUEUE={"DATABASE": "default"}, DATABASE_ROUTERS=[Elsewhere()]):
        assert list(ours()) == ["pgqueue.W001"]


class OnlyTheQueue:
    """All other models are on another database."""

    def db_for_write(self, model: type, **hints: Any) -> str:
        return "default" if model._meta.app_label in self.apps else "elsewhere"

    def __init__(self, *apps: str) -> None:
        self.apps = apps


def test_a_queue_that_is_apart_from_all_rows() -> None:
    with override_settings(DATABASE_ROUTERS=[OnlyTheQueue("pgqueue", "pgqueue_pipeline", "pgqueue_flow")]):
        assert list(ours()) == ["pgqueue.W004"]


@pytest.mark.parametrize(
    ("kept", "model", "app"),
    [("pgqueue_flow", "Lake", "pgqueue_pipeline"), ("pgqueue_pipeline", "BatchRecord", "pgqueue_flow")],
)
def test_a_router_that_forgets_an_app(kept: str, model: str, app: str) -> None:
    with override_settings(DATABASE_ROUTERS=[OnlyTheQueue("pgqueue", kept)]):
        found = ours()
    assert list(found) == ["pgqueue.W001"]
    assert f"the routers send {model} to 'elsewhere'" in found["pgqueue.W001"].msg
    assert f"for the app {app}" in found["pgqueue.W001"].hint


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"LAKE": "/srv/lake"}, "sets LAKE for the pipeline"),
        ({"SLA": {"mails": timedelta(seconds=1)}}, "sets SLA for the pipeline"),
        ({"KEEP_UNTIL_EXPORTED": True}, "Retention would drop nothing."),
        ({"LAKE": "/srv/lake", "KEEP_UNTIL_EXPORTED": True}, "sets LAKE and KEEP_UNTIL_EXPORTED"),
    ],
)
def test_settings_of_the_pipeline_without_its_app(given: dict[str, Any], words: str) -> None:
    without = [name for name in settings.INSTALLED_APPS if name != "django_pgqueue.pipeline"]
    with override_settings(INSTALLED_APPS=without, DJANGO_PGQUEUE=given):
        found = ours()
    assert list(found) == ["pgqueue.E022"]
    assert words in found["pgqueue.E022"].msg
    assert 'Add "django_pgqueue.pipeline" to INSTALLED_APPS and run manage.py migrate.' in found["pgqueue.E022"].hint


def test_the_pipeline_without_the_queue_names_what_is_missing() -> None:
    without = [name for name in settings.INSTALLED_APPS if name not in ("django_pgqueue", "flights")]
    with (
        pytest.raises(ImproperlyConfigured, match='add "django_pgqueue" to INSTALLED_APPS'),
        override_settings(INSTALLED_APPS=without),
    ):
        pass
