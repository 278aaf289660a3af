"""Where INSTALLED_APPS is overridden, another app's config may get the address, and so the signals, of an old one."""

from __future__ import annotations

import pytest
from django.apps import apps

from django_pgqueue import apps as ours
from django_pgqueue.models import Channel


@pytest.mark.django_db
def test_the_signal_of_another_app_changes_nothing() -> None:
    Channel.objects.all().delete()

    ours.create_default_channel(sender=apps.get_app_config("auth"), using="default")

    assert not Channel.objects.exists()
    assert not ours.is_ours(apps.get_app_config("auth"), "default")


@pytest.mark.django_db
def test_the_signal_of_the_queue_makes_the_default_channel() -> None:
    Channel.objects.all().delete()

    ours.create_default_channel(sender=apps.get_app_config("pgqueue"), using="default")

    assert Channel.objects.get().name == "default"
