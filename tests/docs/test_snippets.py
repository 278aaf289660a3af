"""Every Python and SQL block of how-to and reference runs, in the order of the page, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from django_pgqueue import channel_set, handlers, limits, schedules
from tests.support.markdown import DOCS, Block, blocks, is_followed, name

# Blocks for Spark are run by tests/spark/test_datasource_docs.py and tests/spark/test_publish.py.
NOT_RUN = ("no-run", "signature", "spark")
PAGES = sorted(
    page
    for part in ("how-to", "reference", "explanation")
    for page in (DOCS / part).rglob("*.md")
    if not is_followed(page)  # by test_followed.py
)


def runs(block: Block) -> bool:
    return block.language in ("python", "sql") and not set(NOT_RUN).intersection(block.words)


@pytest.fixture(autouse=True)
def _as_the_pages_expect(db: None) -> Iterator[None]:
    """The default channel, a backend for tasks; handlers, schedules and limits that a page registers are
    forgotten."""
    channel_set(channel="default")
    before, declared, declared_limits = dict(handlers._registry), list(schedules._declared), dict(limits._declared)
    with override_settings(TASKS={"default": {"BACKEND": "django_pgqueue.tasks.PgQueueBackend"}}):
        yield
    schedules._declared[:] = declared
    limits._declared.clear()
    limits._declared.update(declared_limits)
    handlers._registry.clear()
    handlers._registry.update(before)


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(runs, blocks(page)))], ids=name)
def test_the_blocks_of_a_page_run(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "snippets"}
    for block in filter(runs, blocks(page)):
        place = f"{name(page)}:{block.line}"
        try:
            if block.language == "python":
                # Without the annotations of this module, which are text: a reader's module has its own.
                source = "\n" * (block.line - 1) + block.text
                exec(compile(source, place, "exec", dont_inherit=True), names)
            else:
                with connection.cursor() as cursor:
                    cursor.execute(block.text)
        except Exception as error:
            error.add_note(f"in the block at {place}")
            raise
