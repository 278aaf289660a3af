"""The tutorials and the README's example, followed from an empty folder on an empty database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.docs.markdown import REPOSITORY, blocks
from tests.docs.newcomer import Newcomer

DATABASE = "pgqueue_newcomer"


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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_of_the_pipeline_ends_with_a_report(newcomer: Newcomer) -> None:
    page = "docs/tutorials/archive-to-report.md"
    newcomer.follow(blocks(REPOSITORY / page), page)

    assert "<svg" in (newcomer.folder / "report.html").read_text()


def test_the_example_of_the_readme_works_in_a_new_project(newcomer: Newcomer) -> None:
    for command in ("django-admin startproject mysite .", "python manage.py startapp shop"):
        newcomer.run(command.split(), command)
    with open(newcomer.folder / "mysite" / "settings.py", "a") as settings:
        settings.write("from django_pgqueue.embedded import databases\nDATABASES = databases(BASE_DIR)\n")
    page = "README.md"
    newcomer.follow(blocks(REPOSITORY / page), page)
    for command in ("makemigrations shop", "migrate"):
        newcomer.run(["python", "manage.py", *command.split()], command)

    order = "from shop.models import place_order; place_order('ada@example.org')"
    newcomer.run(["python", "manage.py", "shell", "-c", order], page)
    said = newcomer.run(["python", "manage.py", "runqueueworker", "--drain"], page)

    assert "1 completed" in said
    confirmed = "from shop.models import Order; print('confirmed:', Order.objects.get().confirmed)"
    assert "confirmed: True" in newcomer.run(["python", "manage.py", "shell", "-c", confirmed], page)
