"""The handler or schedule for each task and schedule of a Celery app, of tasks that Celery itself has made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from celery import Celery, schedules
from django.core.management import CommandError, call_command

from django_pgqueue import backoff, handlers
from django_pgqueue.importing import celery
from tests.importing.celery_project import project
from tests.support.cases import cases


class Sunset(schedules.BaseSchedule):
    """As Celery's solar one, which needs a library of its own."""


def plain() -> None: ...


def bound(self: object) -> None: ...


def becomes(name: str, **options: object) -> celery.Port:
    app = Celery("other", broker="memory://", set_as_current=False)
    app.task(name=name, shared=False, **{"ignore_result": True, **options})(bound if options.get("bind") else plain)
    app.finalize()
    [port] = celery.tasks(app)
    return port


@pytest.mark.parametrize(
    ("options", "decorator"),
    [
        ({}, '@handler("a", max_attempts=1)'),
        (
            {"bind": True, "max_retries": 5, "default_retry_delay": 30},
            '@handler("a", max_attempts=6, backoff=Constant(timedelta(seconds=30)))',
        ),
        (
            {"autoretry_for": (Exception,), "retry_backoff": 2, "retry_backoff_max": 60},
            '@handler("a", max_attempts=4, backoff=Exponential(timedelta(seconds=2), longest=timedelta(seconds=60)))',
        ),
        ({"soft_time_limit": 90}, '@handler("a", max_attempts=1, timeout=timedelta(seconds=90))'),
    ],
    ids=str,
)
def test_options_of_a_task_become_those_of_a_handler(options: dict[str, object], decorator: str) -> None:
    assert becomes("a", **options).becomes == decorator


@cases(
    ("options", "note"),
    [
        ({"autoretry_for": (KeyError,)}, "Only KeyError is tried again there"),
        ({"bind": True}, "raise Retry(after="),
        ({"bind": True, "max_retries": None}, "for ever"),
        ({"rate_limit": "10/m"}, "release_interval=timedelta(seconds=6)"),
        ({"rate_limit": 0}, "pause its channel"),
        ({"expires": 60}, "nothing expires here"),
        ({"ignore_result": False}, "Complete(result)"),
    ],
)
def test_options_that_a_person_must_look_at_have_a_note(options: dict[str, object], note: str) -> None:
    assert note in " ".join(becomes("a", **options).notes)


def test_the_queue_of_a_route_is_printed() -> None:
    app = Celery("other", broker="memory://", set_as_current=False, task_routes={"a": "mail"})
    app.task(name="a", shared=False, ignore_result=True)(plain)
    app.finalize()

    assert next(celery.tasks(app)).becomes == '@handler("a", queue="mail", max_attempts=1)'


def test_the_proposal_for_a_plain_task_registers_a_handler() -> None:
    @project.task(
        name="importing.plain", shared=False, autoretry_for=(Exception,), retry_backoff=True, ignore_result=True
    )
    def plain() -> None: ...

    project.finalize()
    port = celery.port_task(project.tasks["importing.plain"], None)
    names = {"handler": handlers.handler, "timedelta": timedelta, **vars(backoff)}
    exec(f"{port.becomes}\ndef function(delivery): ...", names)

    assert handlers.get("importing.plain").max_attempts == 4
    handlers.unregister("importing.plain")


@cases(
    ("when", "printed"),
    [
        (schedules.crontab(minute=30, hour="7,19", day_of_week="mon-fri"), '"30 7,19 * * mon-fri"'),
        (schedules.crontab(minute="*/15", month_of_year=1, day_of_month="1"), '"*/15 * 1 1 *"'),
        (30.0, "timedelta(seconds=30)"),
        (timedelta(hours=2), "timedelta(seconds=7200)"),
        (schedules.schedule(run_every=60), "timedelta(seconds=60)"),
        (Sunset(), None),
    ],
)
def test_a_schedule_becomes_cron_or_an_interval(when: object, printed: str | None) -> None:
    assert celery.timetable(when) == printed


def test_a_schedule_that_does_not_exist_here_is_reported_as_such() -> None:
    port = celery.port_schedule("dusk", "shop.dusk", Sunset(), {})

    assert port.becomes is None
    assert "no such schedule" in port.notes[0]


def test_rows_of_django_celery_beat_keep_their_time_zone_and_whether_they_are_enabled() -> None:
    """As its models give them; the schedules are Celery's."""
    cron = schedules.crontab(minute="*/5", hour="8-18")
    berlin = SimpleNamespace(timezone="Europe/Berlin")
    same = {"task": "a", "args": "[]", "kwargs": "{}", "solar": None, "crontab": None, "enabled": True}
    rows = [
        SimpleNamespace(**{**same, "crontab": berlin, "enabled": False}, name="work", schedule=cron),
        SimpleNamespace(**same, name="ten", schedule=schedules.schedule(timedelta(minutes=10))),
        SimpleNamespace(**{**same, "solar": "sunset"}, name="dusk"),
        SimpleNamespace(**same, name="once", schedule=SimpleNamespace(clocked_time=None)),
    ]
    work, ten, dusk, once = celery.celery_schedules(project, rows)

    assert work.becomes == (
        '@schedule("*/5 8-18 * * *", time_zone="Europe/Berlin", name="work", enabled=False)  # on the handler "a"'
    )
    assert ten.becomes == '@schedule(timedelta(seconds=600), name="ten")  # on the handler "a"'
    assert (dusk.becomes, dusk.notes) == (None, ("sunset of a: there is no such schedule here.",))
    assert "dequeue_at=" in once.notes[0]


def test_the_command_tells_tasks_and_schedules(project_tasks: None) -> None:
    output = StringIO()
    call_command(
        "pgqueue", "plan", "celery", "--app", "tests.importing.celery_project.project", "--json", stdout=output
    )
    plan = json.loads(output.getvalue())

    assert "importing.daily" in [task["name"] for task in plan["tasks"]]
    [daily] = plan["schedules"]
    assert (
        daily["becomes"] == '@schedule("0 7 * * *", time_zone="UTC", name="daily")  # on the handler "importing.daily"'
    )
    assert daily["notes"] == ["args=(1,): put it into payload=."]


def test_an_app_that_is_not_there_is_said() -> None:
    with pytest.raises(CommandError, match="Name it with --app"):
        call_command("pgqueue", "plan", "celery", "--app", "shop.nothing.app")


@pytest.fixture
def project_tasks() -> Iterator[None]:
    @project.task(name="importing.daily", shared=False, ignore_result=True)
    def daily(number: int) -> None: ...

    project.conf.beat_schedule = {
        "daily": {"task": "importing.daily", "schedule": schedules.crontab(minute=0, hour=7), "args": (1,)}
    }
    yield
    project.conf.beat_schedule = {}
