from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from django_pgqueue import Complete, Defer, Reject, Retry
from django_pgqueue.outcomes import KEEP, Outcome
from tests.support.cases import cases

LATER = datetime(2100, 1, 1, tzinfo=UTC)
OUTCOMES = [
    Complete({"n": 1}),
    Defer(delay=timedelta(1), state=3),
    Retry(timedelta(2), "oops"),
    Reject("refused", {"n": 1}),
]


@cases("outcome", OUTCOMES)
def test_an_outcome_can_be_returned_or_raised(outcome: Outcome):
    with pytest.raises(type(outcome)) as raised:
        raise outcome
    assert raised.value is outcome
    assert isinstance(outcome, Outcome)


def test_an_outcome_can_be_matched():
    def describe(outcome: Outcome) -> object:
        match outcome:
            case Complete(result):
                return result
            case Defer(until, delay, state):
                return until, delay, state
            case Retry(after, error):
                return after, error
            case Reject(reason, details):
                return reason, details

    assert [describe(outcome) for outcome in OUTCOMES] == [
        {"n": 1},
        (None, timedelta(1), 3),
        (timedelta(2), "oops"),
        ("refused", {"n": 1}),
    ]


def test_fields_that_are_not_given_have_defaults():
    assert Complete().result is None
    assert (Defer().until, Defer().delay, Defer().state) == (None, None, KEEP)
    assert (Retry().after, Retry().error) == (None, "")
    assert Reject("refused").details is None


def test_a_state_of_none_is_not_the_same_as_none_given():
    assert Defer(state=None).state is None
    assert Defer(state=None).state is not KEEP


def test_an_outcome_shows_what_it_says():
    assert repr(Reject("refused", {"n": 1})) == "Reject(reason='refused', details={'n': 1})"
    assert repr(Defer(until=LATER)).endswith("delay=None, state=KEEP, count_attempt=False)")


@cases(
    ("make", "problem"),
    [
        (lambda: Defer(until=LATER, delay=timedelta(1)), "not both"),
        (lambda: Defer(until=datetime(2100, 1, 1)), "aware"),  # noqa: DTZ001
        (lambda: Reject(""), "1 to 200"),
        (lambda: Reject("x" * 201), "1 to 200"),
        (lambda: Defer(5), "until of Defer is not a datetime but int: for a time from now, use Defer"),
        (lambda: Defer(timedelta(5)), "until of Defer is not a datetime but timedelta: for a time from now, use Defer"),
        (lambda: Defer(delay=5), r"delay of Defer is not a timedelta but int: use datetime\.timedelta"),
        (lambda: Retry(5), r"after of Retry is not a timedelta but int: use datetime\.timedelta"),
        (lambda: Retry(after="5 s"), "after of Retry is not a timedelta but str"),
        (lambda: Reject(404), "reason of Reject is not a str but int"),
    ],
)
def test_an_outcome_that_makes_no_sense_is_refused_where_it_is_made(make, problem: str):
    with pytest.raises(ValueError, match=problem):
        make()


def test_outcomes_with_the_same_values_are_equal():
    assert [type(outcome)(*outcome._values()) for outcome in OUTCOMES] == OUTCOMES
    assert Complete() != Defer()
    assert Complete({"n": 1}) != Complete({"n": 2})
    assert Defer(state=None) != Defer()
    assert Retry() != "Retry"


def test_equal_outcomes_have_one_hash_even_with_values_that_have_none():
    assert len({Complete({"n": 1}), Complete({"n": 1}), Reject("refused", {"n": 1})}) == 2


def test_an_outcome_is_equal_to_what_pickle_makes_of_it():
    assert pickle.loads(pickle.dumps(OUTCOMES)) == OUTCOMES
