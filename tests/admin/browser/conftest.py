"""A real browser before a real server: the pages as a user sees them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.admin.browser.chromium import Chromium, Tab
from tests.support.paths import REPOSITORY
from tests.support.session_guard import wait_for_statements

LONGEST = 60.0


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def site(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server on the test database."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("site") / "log"
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject"), os.environ.get("PYTHONPATH", "")])
    given = {**environment, "DJANGO_SETTINGS_MODULE": "tests.admin.browser.settings", "PYTHONPATH": path}
    command = [sys.executable, "testproject/manage.py", "runserver", "--noreload", "--skip-checks", f"127.0.0.1:{port}"]
    with log.open("wb") as out:
        server = subprocess.Popen(command, env=given, cwd=REPOSITORY, stdout=out, stderr=out)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for_site(address + "/static/django_pgqueue/live.js", log)
        yield address
    finally:
        server.terminate()
        server.wait(LONGEST)


def wait_for_site(address: str, log: Path) -> None:
    end = time.monotonic() + LONGEST
    while True:
        try:
            with urlopen(address, timeout=LONGEST):
                return
        except OSError:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    tab = chromium.tab()
    tab.size(1440)
    yield tab
    tab.close()
    wait_for_statements()


@pytest.fixture
def log_in(tab: Tab, site: str) -> Callable[..., None]:
    """`log_in("view_dashboard")`: the browser of a user with this permission; of a superuser without an argument."""

    def log_in(*codenames: str) -> None:
        user = User.objects.create_user(f"user{User.objects.count()}", is_staff=True, is_superuser=not codenames)
        user.user_permissions.set(Permission.objects.filter(content_type__app_label="pgqueue", codename__in=codenames))
        client = Client()
        client.force_login(user)
        tab.cookie(site, "sessionid", client.cookies["sessionid"].value)

    return log_in
