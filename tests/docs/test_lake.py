"""The reference of the lake is complete."""

from __future__ import annotations

import re

from django_pgqueue.spark import schema
from tests.support.cases import cases
from tests.support.markdown import page, section


@cases("table", schema.TABLES)
def test_each_column_is_described_with_its_type(table: str) -> None:
    described = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", section(page("docs/reference/lake.md"), table), re.MULTILINE)

    assert described == [(column.name, short(column.type)) for column in schema.TABLES[table]]


def short(kind: object) -> str:
    names = {"double": "float64", "timestamp[us, tz=UTC]": "timestamp", "map<string, int64>": "map<string, int64>"}
    return names.get(str(kind), str(kind))
