"""The plan: combinations of Python, Django, psycopg and server, and the tests of each."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.paths import REPOSITORY

PYTHONS = ("3.11", "3.12", "3.13")
DJANGOS = ("5.2", "6.0", "6.1")

# But for those in a browser.
ADMIN = sorted(path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "tests" / "admin").glob("test_*.py"))
# Files where a version of Python, Django or psycopg has made a difference. Each runs on every combination.
TELLING = (
    "verification/compatibility/test_matrix.py::test_it_runs_on_what_the_matrix_says",
    "verification/compatibility/test_projects.py::test_a_plain_project",
    "verification/compatibility/test_projects.py::test_the_native_pool",
    "verification/compatibility/test_projects.py::test_server_side_binding",
    "tests/test_outcomes.py",
    "tests/test_timetable.py",
    "tests/docs/test_followed.py::test_the_tutorial_can_be_followed_from_an_empty_folder",
    "tests/lifecycle/test_enqueue.py",
    "tests/lifecycle/test_signals.py",
    "tests/maintenance/test_scheduler.py",
    *ADMIN,
    "tests/admin/browser/test_breadcrumbs.py",
    "tests/commands/test_health.py",
    "tests/tasks/test_contract.py",
    "tests/tasks/test_django_suite.py",
    "tests/testing",
    "tests/worker/test_async.py::test_an_async_handler_answers_as_any_other",
    "tests/worker/test_async.py::test_context_variables_are_gone_with_the_message",
    "tests/worker/test_async.py::test_a_handler_sees_a_task_of_its_own_and_may_use_timeouts_and_groups",
    "tests/worker/test_async.py::test_the_orm_works_and_blocks_no_other_handler",
    "tests/worker/test_async.py::test_the_test_connection_is_left_alone",
    "tests/worker/test_atomic.py::test_effects_and_completion_are_one_transaction",
    "tests/worker/test_atomic.py::test_a_broken_transaction_is_a_failure_even_if_the_handler_says_done",
    "tests/worker/test_supervisor.py::test_two_processes_drain_a_backlog_and_all_end",
)
# The tests of `--whole`: all that need no more than the queue and a server.
WHOLE = (
    "verification/compatibility",
    "tests/test_handler_functions.py",
    "tests/test_handlers.py",
    "tests/test_outcomes.py",
    "tests/test_payloads.py",
    "tests/test_redaction.py",
    "tests/test_timetable.py",
    "tests/schema",
    "tests/lifecycle",
    "tests/concurrency",
    "tests/maintenance",
    "tests/admin",
    "tests/commands",
    "tests/doctor",
    "tests/security",
    "tests/tasks",
    "tests/testing",
    "tests/worker",
)


@dataclass(frozen=True, slots=True, order=True)
class Combination:
    python: str
    django: str
    psycopg: str = "binary"
    server: str = "system"

    def __str__(self) -> str:
        return f"Python {self.python}, Django {self.django}, psycopg {self.psycopg}, PostgreSQL of the {self.server}"

    @property
    def name(self) -> str:
        return f"python-{self.python}-django-{self.django}-{self.psycopg}-{self.server}"


def combinations() -> list[Combination]:
    """Those that exist. The newest of all is also the one with psycopg in C; the embedded server takes its turns."""
    found = []
    for python in PYTHONS:
        for number, django in enumerate(DJANGOS):
            if not exists(python, django):
                continue
            newest = (python, django) == (PYTHONS[-1], DJANGOS[-1])
            server = "wheel" if number == 1 else "system"
            found.append(Combination(python, django, "c" if newest else "binary", server))
    return found


def exists(python: str, django: str) -> bool:
    """Django 6 needs Python 3.12."""
    return django.startswith("5") or python != "3.11"
