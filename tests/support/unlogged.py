"""Runs the statements of the page on UNLOGGED tables, as a user does by psql."""

from __future__ import annotations

import psycopg

from tests.support.markdown import DOCS, blocks


def set_unlogged(url: str) -> None:
    _run(url, "pgqueue_lane SET UNLOGGED")


def set_logged(url: str) -> None:
    _run(url, "pgqueue_lane SET LOGGED")


def _run(url: str, text: str) -> None:
    [block] = [block for block in blocks(DOCS / "how-to" / "durability.md") if text in block.text]
    with psycopg.connect(url, autocommit=True) as session:
        for statement in block.text.split(";\n"):
            if statement.strip():
                session.execute(statement.encode())
