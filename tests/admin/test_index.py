"""Which pages of the queue the admin's index shows, and in which order."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse


@pytest.fixture
def shown(admin_client: Client) -> Any:
    """`shown("pgqueue")`: the names of the app's pages, in the order of the index."""

    def shown(app: str) -> list[str]:
        text = admin_client.get(reverse("admin:app_list", args=[app])).content.decode()
        content = text.split('id="content"')[1]
        found = [name.strip() for name in re.findall(rf'<a href="[^"]+/{app}/\w+/"[^>]*>([^<]+)</a>', content)]
        return [name for name in found if name not in ("View", "Add", "Change")]

    return shown


def test_the_dashboard_comes_first(shown: Any) -> None:
    names = shown("pgqueue")
    assert names[0] == "Dashboard"
    assert names[1:] == sorted(names[1:])


def test_the_pipeline_has_a_section_of_its_own(shown: Any, admin_client: Client) -> None:
    """verification/compatibility/test_without_pipeline.py: it is there only where its app is installed."""
    assert shown("pgqueue_pipeline") == ["Lakes", "Queue metrics"]
    assert not set(shown("pgqueue_pipeline")) & set(shown("pgqueue"))
    assert "PostgreSQL queue: pipeline" in admin_client.get(reverse("admin:index")).content.decode()
