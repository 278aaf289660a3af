"""The settled message is copied column by column, in several functions: each copies every column, to its place.

A function that the INSERTs of the archive share would cost CPU for each message, because PostgreSQL cannot inline
one that returns a row. So this test keeps the lists alike.
"""

from __future__ import annotations

import re

import pytest

from tests.schema.sql_files import FILES, uncommented
from tests.support.sql import sql

INSERT = re.compile(
    r"INSERT INTO (pgqueue_archived_message|pgqueue_dead_letter) \(([^)]+)\)\s+"
    r"(?:VALUES \(|SELECT )(.*?)(?:\);|\bFROM )",
    re.DOTALL,
)
OTHER_NAMES = {
    "channel": r"\bc\.name",
    "archived_at": "v_now",
    "dead_at": "v_now",
    "outcome": "'completed'",
    "result": "cancel_reason",
}
SET_LATER = {"redriven_at", "redriven_to"}
"""Columns of a dead letter that a redrive fills."""
INSERTS = [
    pytest.param(*found.groups(), id=f"{path.stem}-{found[1]}")
    for path in FILES
    for found in INSERT.finditer(uncommented(path.read_text(encoding="utf-8")))
]


def expressions(text: str) -> list[str]:
    """Return the parts of a list between the commas that stand in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [" ".join(part.split()) for part in parts]


def test_the_functions_that_copy_messages_are_found() -> None:
    assert [case.id for case in INSERTS] == [
        "pgqueue_archive_v01-pgqueue_archived_message",
        "pgqueue_complete_v01-pgqueue_archived_message",
        "pgqueue_dead_letter_v01-pgqueue_dead_letter",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(("table", "columns", "values"), INSERTS)
def test_a_copy_of_a_message_has_each_column_of_its_table(table: str, columns: str, values: str) -> None:
    needed = {
        name
        for (name,) in sql(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_default IS NULL "
            "AND column_name <> ALL (%s)",
            table,
            [*SET_LATER],
        )
    }
    named = expressions(columns)
    assert needed - set(named) == set(), "the function leaves out these columns of the table"
    assert set(named) - needed == set(), "the table has no such columns, or fills them itself"
    copied = list(zip(named, expressions(values), strict=True))
    assert [
        (column, value)
        for column, value in copied
        if not re.search(rf"(?:\b|_){column}(?:\b|s\[)|{OTHER_NAMES.get(column, '$^')}", value)
    ] == [], "these values stand at the place of another column"
