"""The executor turns whatever a handler does into a value; no database anywhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import Complete, Defer, Delivery, Reject, Retry
from django_pgqueue.outcomes import Outcome
from django_pgqueue.worker.executor import HandlerMissing, execute, missing_handler
from django_pgqueue.worker.numbers import MESSAGE_CHARACTERS, TRACEBACK_CHARACTERS
from tests.support.cases import cases
from tests.support.deliveries import DELIVERY


def raising(error: BaseException) -> Any:
    def function(delivery: Any) -> None:
        raise error

    return function


def test_nothing_returned_is_done() -> None:
    assert isinstance(execute(lambda delivery: None, DELIVERY)[0].outcome, Complete)


@cases("outcome", [Complete(1), Defer(delay=timedelta(1)), Retry(), Reject("refused")])
def test_an_outcome_may_be_returned_or_raised(outcome: Outcome) -> None:
    returned = execute(lambda delivery: outcome, DELIVERY)[0]
    raised = execute(raising(outcome), DELIVERY)[0]
    assert (returned.outcome, returned.raised) == (outcome, False)
    assert (raised.outcome, raised.raised) == (outcome, True)


@cases("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_any_exception_is_a_failure_of_the_message(error: BaseException) -> None:
    execution = execute(raising(error), DELIVERY)[0]
    assert isinstance(execution.outcome, Retry)
    assert execution.error["type"] == type(error).__name__
    assert execution.reason == "failed"


def test_the_traceback_names_frames_and_causes_but_no_locals_nor_source() -> None:
    def function(delivery: Delivery) -> None:
        password = "hunter2"  # noqa: F841
        try:
            int("x")
        except ValueError as error:
            raise RuntimeError("outer") from error

    error = execute(function, DELIVERY)[0].error
    assert error["message"] == "outer"
    assert "test_executor.py" in error["traceback"]
    assert ", in function" in error["traceback"]
    assert "ValueError: invalid literal" in error["traceback"]
    assert error["traceback"].index("ValueError") < error["traceback"].index("RuntimeError: outer")
    assert "hunter2" not in error["traceback"]
    assert "executor.py" not in error["traceback"].replace("test_executor.py", "")


def test_an_exception_that_causes_itself_is_described() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert "second" in execute(raising(first), DELIVERY)[0].error["traceback"]


def test_messages_are_cleaned_and_bounded() -> None:
    error = execute(raising(ValueError("nul \x00, half a pair \ud800, " + "x" * 100_000)), DELIVERY)[0].error
    assert error["message"].startswith("nul \\x00, half a pair \\ud800, xxx")
    assert len(error["message"]) < MESSAGE_CHARACTERS + 100
    assert len(error["traceback"]) < TRACEBACK_CHARACTERS + 100


def test_an_exception_that_cannot_be_shown_is_still_a_failure() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise AttributeError("never initialised")

    execution = execute(raising(Broken()), DELIVERY)[0]
    assert execution.error["type"].endswith("Broken")
    assert "cannot be shown" in execution.error["message"]


@cases("answer", [42, "done", {"ok": True}, False, Complete, object(), Outcome()])
def test_nonsense_is_retried_and_named(answer: Any) -> None:
    execution = execute(lambda delivery: answer, DELIVERY)[0]
    assert isinstance(execution.outcome, Retry)
    assert execution.error["type"] == "django_pgqueue.exceptions.HandlerError"
    assert "'h' returned" in execution.error["message"]


def test_an_async_handler_is_named_without_a_warning_of_a_forgotten_await() -> None:
    async def function(delivery: Delivery) -> None: ...

    assert "async def" in execute(function, DELIVERY)[0].error["message"]


def test_a_message_without_a_handler_waits_and_will_be_rejected() -> None:
    execution = missing_handler(DELIVERY)
    assert execution.outcome == HandlerMissing()
    assert execution.reason == "unknown_handler"
    assert "No handler is called 'h'" in execution.error["message"]


def test_a_retry_keeps_its_own_words() -> None:
    error = execute(lambda delivery: Retry(error="quota"), DELIVERY)[0].error
    assert (error["type"], error["message"]) == ("Retry", "quota")


class TestBatch:
    deliveries = [DELIVERY, replace(DELIVERY, id=8)]

    def outcomes(self, function: Any) -> list[Any]:
        return [execution.outcome for execution in execute(function, self.deliveries)]

    def test_nothing_returned_is_all_done(self) -> None:
        assert all(isinstance(outcome, Complete) for outcome in self.outcomes(lambda deliveries: None))

    def test_outcomes_go_by_id(self) -> None:
        refused = Reject("refused")
        first, second = self.outcomes(lambda deliveries: {8: refused})
        assert isinstance(first, Complete)
        assert second is refused

    @pytest.mark.parametrize("answer", [[None, None], {9: None}, "done"])
    def test_an_answer_that_is_not_about_its_messages_fails_all(self, answer: Any) -> None:
        executions = execute(lambda deliveries: answer, self.deliveries)
        assert {execution.error["type"] for execution in executions} == {"django_pgqueue.exceptions.HandlerError"}

    def test_an_exception_fails_all(self) -> None:
        executions = execute(raising(ValueError("no")), self.deliveries)
        assert [execution.error["message"] for execution in executions] == ["no", "no"]
        assert all(execution.raised for execution in executions)


class TestBackoff:
    """The pause that the handler's own function names."""

    def test_it_is_asked_with_the_attempt_and_what_was_raised(self) -> None:
        def backoff_function(attempt: int, error: BaseException) -> timedelta:
            assert isinstance(error, ConnectionError)
            return timedelta(minutes=attempt)

        delivery = replace(DELIVERY, attempt=3)
        assert execute(raising(ConnectionError()), delivery, backoff_function)[0].outcome.after == timedelta(minutes=3)

    def test_a_retry_that_names_its_own_pause_wins(self) -> None:
        assert execute(raising(Retry(timedelta(1))), DELIVERY, lambda *_: timedelta(2))[0].outcome.after == timedelta(1)
        assert execute(raising(Retry(error="x")), DELIVERY, lambda *_: timedelta(2))[0].outcome.after == timedelta(2)
        assert execute(lambda delivery: Retry(), DELIVERY, lambda *_: timedelta(2))[0].outcome.after == timedelta(2)

    def test_none_leaves_it_to_the_message(self) -> None:
        assert execute(raising(ValueError()), DELIVERY, lambda *_: None)[0].outcome.after is None

    @pytest.mark.parametrize("answer", [5, "soon", timedelta(-1)])
    def test_nonsense_leaves_it_to_the_message_and_is_said(self, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
        execution = execute(raising(ValueError("no")), DELIVERY, lambda *_: answer)[0]
        assert (execution.outcome.after, execution.error["message"]) == (None, "no")
        assert [record.event for record in caplog.records] == ["backoff_failed"]

    def test_other_outcomes_are_left_alone(self) -> None:
        assert isinstance(execute(lambda delivery: Defer(), DELIVERY, lambda *_: timedelta(2))[0].outcome, Defer)
