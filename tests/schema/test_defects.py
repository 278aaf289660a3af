"""The defects that harnesses put into the queue are edits of the SQL files: each must find its text there.

A change of a function makes a defect stale. The harnesses would notice that only in their next long run.
"""

from __future__ import annotations

from django_pgqueue.sql import files
from tests.schema.sql_files import LATEST
from verification.chaos.sabotage.defects import DEFECTS, Defect
from verification.model_based.sabotage import NOTICED, OF_THE_MODEL

ALL = (*DEFECTS, *OF_THE_MODEL)


def body(function: str) -> str:
    """Return the body of a function in its newest file, as PostgreSQL keeps it."""
    name = f"pgqueue_{function}"
    return files.function_body(name, LATEST[name])


def put_in(defect: Defect) -> dict[str, str]:
    """Return the functions that the defect changes, as they are then, from their files."""
    sources = {function: body(function) for function, _, _ in defect.edits}
    for edit in defect.edits:
        sources[edit[0]] = defect.edited(sources[edit[0]], edit)
    return sources


def test_a_defect_changes_each_of_its_functions():
    stale = []
    for defect in ALL:
        try:
            stale += [
                f"{defect.name}: {name} stays as it is" for name, text in put_in(defect).items() if text == body(name)
            ]
        except ValueError as error:
            stale.append(str(error))
    assert not stale, "\n".join(stale)


def test_defects_have_different_names_and_the_model_notices_only_those():
    names = [defect.name for defect in ALL]
    assert sorted(set(names)) == sorted(names)
    assert set(NOTICED) <= set(names)
