"""The tutorials, the README's example and some guides, followed from an empty folder on an empty database."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.docs.newcomer import Newcomer
from tests.support.markdown import DOCS, blocks, is_followed, name, section
from tests.support.paths import REPOSITORY

# Many processes, one after the other: on a busy machine they take minutes.
pytestmark = pytest.mark.timeout(400)

DATABASE = "pgqueue_newcomer"
LOOK = """
from django.contrib.auth.models import User
from django.test import Client
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.create_superuser("ada"))
for page in ("", "pgqueue/deadletter/", "pgqueue/channel/"):
    print(client.get(f"/admin/{page}").content.decode())
"""
GUIDES = sorted(page for page in (DOCS / "how-to").rglob("*.md") if is_followed(page))


@pytest.fixture
def newcomer(tmp_path: Path, transactional_db: None, pg_url: str, environment: dict[str, str]) -> Iterator[Newcomer]:
    """An empty folder, and an empty database on the server under test."""
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        session.execute(f"CREATE DATABASE {DATABASE}")
        url = urlsplit(pg_url)._replace(path=f"/{DATABASE}").geturl()
        own = {key: value for key, value in environment.items() if key != "DJANGO_SETTINGS_MODULE"}
        yield Newcomer(tmp_path, own | {"DATABASE_URL": url})
        session.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def test_the_tutorial_can_be_followed_from_an_empty_folder(newcomer: Newcomer) -> None:
    page = "docs/tutorials/first-queue.md"
    newcomer.follow(blocks(REPOSITORY / page), page)

    # Its section on the admin is for a browser: what it calls by name must be there.
    shown = newcomer.run([sys.executable, "manage.py", "shell", "-v0", "-c", LOOK], page)
    documented = re.findall(r"\*\*(.+?)\*\*", section((REPOSITORY / page).read_text(), "In the admin"), re.DOTALL)
    assert len(documented) >= 6
    for words in documented:
        assert " ".join(words.split()) in shown


def test_the_tutorial_of_a_tenant_can_be_followed_from_an_empty_folder(newcomer: Newcomer) -> None:
    page = "docs/tutorials/tenant.md"
    newcomer.follow(blocks(REPOSITORY / page), page)


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=name)
def test_a_tutorial_stops_the_private_server_that_it_starts(page: Path) -> None:
    followed = [block for block in blocks(page) if "no-run" not in block.words]
    if any("django_pgqueue.embedded" in block.text for block in followed):
        assert "$ python manage.py embeddedpg stop" in followed[-1].text


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_of_the_pipeline_ends_with_a_report(newcomer: Newcomer) -> None:
    page = "docs/tutorials/archive-to-report.md"
    newcomer.follow(blocks(REPOSITORY / page), page)

    report = (newcomer.folder / "report.html").read_text()
    assert "<svg" in report
    [error] = re.findall(r"retries followed\s+`(.+?)`", (REPOSITORY / page).read_text())
    assert f"followed <bdi>{error}</bdi> (" in report, "the error as the page of the tutorial names it"


@pytest.fixture
def owner(newcomer: Newcomer) -> Newcomer:
    """A reader who has a project already, with an app, on that database."""
    return new_project(newcomer)


def new_project(newcomer: Newcomer) -> Newcomer:
    for command in ("django-admin startproject mysite .", "python manage.py startapp shop"):
        newcomer.run(command.split(), command)
    with open(newcomer.folder / "mysite" / "settings.py", "a") as settings:
        settings.write("from django_pgqueue.embedded import databases\nDATABASES = databases(BASE_DIR)\n")
    return newcomer


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_a_guide_can_be_followed_in_a_new_project(owner: Newcomer, page: Path) -> None:
    owner.follow(blocks(page), name(page))


def test_the_landing_page_shows_the_example_of_the_readme() -> None:
    shown = [block.text for block in blocks(DOCS / "index.md") if block.language == "python"]

    assert shown == [block.text for block in blocks(REPOSITORY / "README.md") if block.option("file")]


def test_the_example_of_the_readme_works_in_a_new_project(owner: Newcomer) -> None:
    newcomer, page = owner, "README.md"
    newcomer.follow(blocks(REPOSITORY / page), page)
    for command in ("makemigrations shop", "migrate"):
        newcomer.run(["python", "manage.py", *command.split()], command)

    order = "from shop.models import place_order; place_order('ada@example.org')"
    newcomer.run(["python", "manage.py", "shell", "-c", order], page)
    said = newcomer.run(["python", "manage.py", "runqueueworker", "--drain"], page)

    assert "2 completed" in said
    confirmed = "from shop.models import Order; print('confirmed:', Order.objects.get().confirmed)"
    assert "confirmed: True" in newcomer.run(["python", "manage.py", "shell", "-c", confirmed], page)


MANAGED = """
CREATE ROLE pgqueue_managed LOGIN PASSWORD 'managed' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
ALTER ROLE pgqueue_managed SET statement_timeout = '30s';
ALTER ROLE pgqueue_managed SET idle_session_timeout = '2s';
ALTER ROLE pgqueue_managed SET idle_in_transaction_session_timeout = '10s';
ALTER DATABASE pgqueue_newcomer OWNER TO pgqueue_managed;
"""


@pytest.fixture
def managed(newcomer: Newcomer, pg_url: str) -> Iterator[Newcomer]:
    """A reader whose database is owned by a plain role, with the time-outs of managed servers."""
    drop = "DROP ROLE IF EXISTS pgqueue_managed"
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(drop)
        session.execute(MANAGED)
        address = urlsplit(newcomer.environment["DATABASE_URL"])
        host = address.netloc.rpartition("@")[2]
        newcomer.environment["DATABASE_URL"] = address._replace(netloc=f"pgqueue_managed:managed@{host}").geturl()
        yield newcomer
        session.execute(f"ALTER DATABASE {DATABASE} OWNER TO CURRENT_USER")
        with psycopg.connect(urlsplit(pg_url)._replace(path=f"/{DATABASE}").geturl(), autocommit=True) as inside:
            inside.execute("DROP OWNED BY pgqueue_managed CASCADE")
        session.execute(drop)


def test_a_project_runs_on_a_managed_server(managed: Newcomer) -> None:
    """As docs/how-to/managed-postgresql.md says: no superuser, no extension, and sessions that are ended when idle."""
    test_the_example_of_the_readme_works_in_a_new_project(new_project(managed))

    owner = (
        "from django.db import connection as c; r = c.cursor(); print(*r.execute('SELECT user, version()').fetchone())"
    )
    assert "pgqueue_managed PostgreSQL" in managed.run(["python", "manage.py", "shell", "-v0", "-c", owner], "owner")
