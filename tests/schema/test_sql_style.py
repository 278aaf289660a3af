"""The files of SQL keep the house style: headers, comments, names, lengths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from django_pgqueue.sql import files
from tests.schema import call_graph
from tests.schema.sql_files import FILES, SQL, TABLES, header, uncommented


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_function_file_keeps_the_house_style(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    name = path.stem.rpartition("_v")[0]
    top = header(text)
    assert re.match(r"-- [A-Z][^.]*[.:]", top), "the first sentence says what it is for"
    assert re.search(r"\bLocks: ", top), "the header names the locks, or says none"
    made = re.findall(r"^CREATE (?:FUNCTION|PROCEDURE) (\w+)", text, re.MULTILINE)
    assert made == [name], "one function a file, named as the file"
    assert text.count("$$") == 2
    assert text.endswith("$$;\n")
    assert "\t" not in text
    assert not re.search(r"[ ]+$", text, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_header_names_the_callers_of_the_function(path: Path) -> None:
    """Exactly those of the sources: an operator who changes a function looks there first."""
    name = path.stem.rpartition("_v")[0]
    assert call_graph.named(header(path.read_text(encoding="utf-8"))) == call_graph.callers()[name]


def test_the_call_graph_knows_calls_from_quotations_of_calls() -> None:
    sql = "PERFORM pgqueue_wake(q); -- pgqueue_take(\nHINT = 'call pgqueue_pop()'; EXECUTE 'SELECT pgqueue_tick(1)';"
    assert call_graph.called_by_sql(sql) == {"pgqueue_wake", "pgqueue_tick"}
    python = (
        '"""Runs pgqueue_pop()."""\nSQL = f"SELECT {columns} FROM pgqueue_take(%s)"\nhint = "or SELECT pgqueue_tick()"'
    )
    assert call_graph.called_by_python(python) == {"pgqueue_take"}


@pytest.mark.parametrize("path", SQL, ids=lambda path: path.stem)
def test_lines_of_sql_have_120_columns_at_most(path: Path) -> None:
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 120] == []


RIDDLE = re.compile(r"\b(nobody|somebody|everybody|whoever|told|tells)\b", re.IGNORECASE)


FRAGMENT = re.compile(r"-- (What|Whatever|Who|Whoever|Whether|How|Of|Nobody|Somebody)\b")


@pytest.mark.parametrize("path", SQL, ids=lambda path: path.stem)
def test_comments_of_sql_are_sentences_whose_subject_acts(path: Path) -> None:
    comments = re.findall(r"--.*", path.read_text(encoding="utf-8"))
    assert [line for line in comments if RIDDLE.search(line)] == []
    first = [comments[0], *(line for line in comments[1:] if line[3:4].isupper())]
    assert [line for line in first if FRAGMENT.match(line)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_header_begins_with_what_the_function_does(path: Path) -> None:
    """The first word is a verb: "Returns", "Locks", "Does"."""
    assert re.match(r"-- [A-Z][a-z]+s\b", path.read_text(encoding="utf-8"))


CTE = re.compile(r"\s*(?:.*\bWITH (?:RECURSIVE )?)?\w+(?: \([\w, ]+\))? AS (?:NOT )?(?:MATERIALIZED )?\($")


@pytest.mark.parametrize("path", SQL, ids=lambda path: path.stem)
def test_each_part_of_a_with_has_a_sentence(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = [place for place, line in enumerate(lines) if CTE.match(line)]
    assert [lines[place] for place in parts if not lines[place - 1].strip().startswith("--")] == []


NUMBER = re.compile(r"\binterval '(\d+ [a-z]+)'|pg_try_advisory_xact_lock\((7205, \d)\)")


def test_the_numbers_of_functions_are_explained_at_one_place() -> None:
    """Each interval and each advisory lock has a line in the file of the tables, with the functions that have it."""
    used: dict[str, set[str]] = {}
    for path in FILES:
        for found in NUMBER.findall(uncommented(path.read_text(encoding="utf-8"))):
            used.setdefault("".join(found), set()).add(path.stem.removeprefix("pgqueue_").rpartition("_v")[0])
    text = files.read_file("tables", "runtime", 1)
    entries = re.findall(r"^--   (7205, \d|\d+ [a-z]+) (.*\n(?:--    .*\n)*)", text, re.MULTILINE)
    names = {path.stem.removeprefix("pgqueue_").rpartition("_v")[0] for path in FILES}
    explained = {
        number: {name for _, after in re.findall(r"(:)([^:;]+)", text) for name in re.findall(r"\w+", after)} & names
        for number, text in entries
    }
    assert explained == used


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parameters_and_variables_have_their_prefixes(path: Path) -> None:
    """p_ for parameters, v_ for variables; OUT parameters and result columns are named for the caller."""
    text = uncommented(path.read_text(encoding="utf-8"))
    declaration, _, body = text.partition("AS $$")
    parameters = declaration[declaration.index("(") :].split("RETURNS")[0].split("LANGUAGE")[0]
    for parameter in re.findall(r"^\(?\s*((?:IN)?OUT \w+|\w+) \w", parameters, re.MULTILINE) + re.findall(
        r", ((?:IN)?OUT \w+|\w+) \w", parameters
    ):
        assert parameter.startswith(("p_", "OUT ", "INOUT ")), parameter
    block = re.search(r"^DECLARE\n(.*?)^BEGIN", body, re.MULTILINE | re.DOTALL)
    for variable in re.findall(r"^\s+(\w+) ", block[1] if block else "", re.MULTILINE):
        assert variable.startswith("v_"), variable


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_file_says_what_it_is_for(path: Path) -> None:
    assert re.match(r"-- [A-Z]", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_function_has_80_lines_at_most(path: Path) -> None:
    body = path.read_text(encoding="utf-8").split("$$")[1].strip("\n")
    assert len(body.splitlines()) <= 80
