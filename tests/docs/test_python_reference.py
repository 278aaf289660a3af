"""The pages about Python have every public name, as the code has it."""

from __future__ import annotations

import inspect
import re
from inspect import isfunction

import pytest
from django.dispatch import Signal

import django_pgqueue
from django_pgqueue import outcomes, signals, testing
from tests.docs.signatures import documented_parameters, real_parameters, stubs
from tests.support.markdown import page, section


def test_every_public_name_is_there_with_its_signature() -> None:
    documented = stubs()
    for public in set(django_pgqueue.__all__) - {"aenqueue", "Delivery", "Enqueued"}:
        assert documented_parameters(documented[public]) == real_parameters(getattr(django_pgqueue, public)), public


def test_every_public_name_has_a_heading() -> None:
    headings = set(re.findall(r"^### (\w+)$", page("docs/reference/python-api.md"), re.MULTILINE))

    assert headings == set(django_pgqueue.__all__)


def test_every_helper_for_tests_is_there_with_its_signature() -> None:
    documented = stubs("testing.md")
    headings = set(re.findall(r"^### (\w+)$", page("docs/reference/testing.md"), re.MULTILINE))

    assert headings == set(testing.__all__)
    for helper in documented:
        given = [(*rest, "..." if default == "Ellipsis" else default) for *rest, default in parameters(helper)]
        assert documented_parameters(documented[helper]) == given, helper
    assert {helper for helper in headings if isfunction(getattr(testing, helper))} <= set(documented)


def parameters(helper: str) -> list[tuple[str, bool, str | None]]:
    return real_parameters(getattr(testing, helper))


@pytest.mark.parametrize("value", ["Delivery", "Enqueued"])
def test_a_value_is_there_with_its_fields(value: str) -> None:
    documented = section(page("docs/reference/python-api.md"), value)

    for field in inspect.signature(getattr(django_pgqueue, value)).parameters:
        assert f"`{field}`" in documented


def test_every_outcome_is_public() -> None:
    kinds = {kind.__name__ for kind in outcomes.Outcome.__subclasses__()}

    assert kinds <= set(django_pgqueue.__all__)


def test_every_signal_is_there() -> None:
    sent = {name for name, value in vars(signals).items() if isinstance(value, Signal)}

    named = re.findall(r"^\| `((?:message|breaker)_\w+)` \|", page("docs/reference/signals.md"), re.MULTILINE)
    assert sent == set(named)
