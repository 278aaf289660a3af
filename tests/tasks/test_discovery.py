"""Which tasks a process knows, and what the settings and checks say about it."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings

from django_pgqueue import handlers, schedule, schedules
from django_pgqueue.apps import keeps_tasks
from django_pgqueue.models import Channel, Message
from django_pgqueue.tasks import aliases, discovery, register, registry
from django_pgqueue.tasks.compat import InvalidTask, task, task_backends
from tests.support.cases import cases
from tests.support.paths import REPOSITORY
from tests.tasks import defined
from tests.tasks.settings import TASKS

BACKEND = "django_pgqueue.tasks.PgQueueBackend"


@task
def homeless() -> None:
    """This task is in no module that is searched."""


def checked(**params: Any) -> list[str]:
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, **params}}):
        return [message.id for message in task_backends["default"].check()]


def test_the_tasks_of_the_named_modules_are_handlers() -> None:
    assert "tests.tasks.defined.add" in registry.task_paths()
    assert set(registry.task_paths()) <= set(handlers.names())
    assert registry.find_task("tests.tasks.defined.plain") is None


def test_tasks_py_of_an_installed_app_is_looked_through() -> None:
    with override_settings(INSTALLED_APPS=[*apps_now(), "tests.tasks.shop"]):
        discovery.discover_tasks()
    assert {"tests.tasks.shop.tasks.pack", "tests.tasks.shop.mail.greet"} <= set(registry.task_paths())


def apps_now() -> list[str]:
    return [config.name for config in apps.get_app_configs()]


@pytest.mark.django_db
def test_a_task_that_no_worker_would_find_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidTask, match=r"tasks\.py.*MODULES") as raised:
        homeless.enqueue()
    assert "tests.tasks.test_discovery" in str(raised.value)
    assert not Message.objects.exists()


@pytest.mark.django_db
def test_a_task_may_be_registered_by_hand() -> None:
    assert register(homeless) is homeless
    assert register(homeless) is homeless, "twice is once"
    assert homeless.enqueue().status == "READY"
    registry.forget_task(homeless.module_path)
    assert registry.find_task(homeless.module_path) is None
    assert handlers.find(homeless.module_path) is None


def test_a_module_that_cannot_be_imported_takes_only_its_own_tasks_away() -> None:
    options = {"MODULES": ["tests.worker.broken.handlers", "tests.tasks.defined"]}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": options}}):
        discovery.discover_tasks()
    assert list(handlers.broken) == ["tests.worker.broken.handlers"]
    assert registry.find_task("tests.tasks.defined.add") is not None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"BACKEND": "does.not.exist"}, "No module named 'does'"),
        ({}, "BACKEND"),
        ({"BACKEND": BACKEND, "QUEUES": 5}, "not iterable"),
        ("text", "indices"),
    ],
    ids=["import", "none", "queues", "text"],
)
def test_a_broken_alias_breaks_only_itself(params: Any, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    aliases._logged.clear()
    with override_settings(TASKS={"broken": params, **TASKS}):
        assert keeps_tasks()
        discovery.set_up_tasks()
        result = defined.add.enqueue(1)
        assert task_backends["default"].get_result(result.id) == result
        assert list(discovery.backend_channels())
    logged = [record.getMessage() for record in caplog.records if "broken" in record.getMessage()]
    assert len(logged) == 1, "it is said once"
    assert problem in logged[0]
    assert "Correct or remove it" in logged[0]


def test_a_path_in_a_message_imports_nothing() -> None:
    before = set(sys.modules)
    for path in ("tests.tasks.trap.spring", "tests.tasks.trap", "os.system", "tests.tasks.defined.plain"):
        assert registry.find_task(path) is None
    assert "tests.tasks.trap" not in set(sys.modules) - before


def test_a_task_may_have_a_schedule() -> None:
    before = list(schedules._declared)
    try:
        schedule(timedelta(hours=1), payload={"args": [1]})(defined.add.func)
        [declared] = [item for item in schedules._declared if item not in before]
        assert declared.handler_name == "tests.tasks.defined.add"
    finally:
        schedules._declared[:] = before


@pytest.mark.django_db
def test_migrate_makes_the_channel_of_each_queue() -> None:
    Channel.objects.all().delete()
    call_command("migrate", verbosity=0)
    found = set(Channel.objects.values_list("queue", "name"))
    assert found == {("default", "default"), ("mail", "default")}


@cases(
    ("params", "found"),
    [
        ({"OPTIONS": {"QUEUE": "x"}}, "pgqueue.E020"),
        ({"OPTIONS": {"MODULES": "shop.tasks"}}, "pgqueue.E021"),
        ({"OPTIONS": {"MAX_ATTEMPTS": 0}}, "pgqueue.E021"),
        ({"OPTIONS": {"MAX_ATTEMPTS": True}}, "pgqueue.E021"),
        ({"OPTIONS": {"BACKOFF": 3}}, "pgqueue.E021"),
        ({"OPTIONS": {"CHANNEL": ""}}, "pgqueue.E021"),
        ({"ENQUEUE_ON_COMMIT": True}, "pgqueue.W020"),
    ],
)
def test_settings_that_make_no_sense_are_reported(params: dict[str, Any], found: str) -> None:
    assert checked(**params) == [found]


def test_manage_check_asks_the_backend() -> None:
    settings = {"default": {"BACKEND": BACKEND, "OPTIONS": {"QUEUE": "x"}}}
    with override_settings(TASKS=settings), pytest.raises(SystemCheckError, match=r"pgqueue\.E020"):
        call_command("check")


def test_without_the_app_the_check_and_the_enqueue_say_so() -> None:
    registry.forget_task("tests.tasks.defined.add")
    ours = ("django_pgqueue", "django_pgqueue.pipeline", "django_pgqueue.flow", "flights")
    with override_settings(INSTALLED_APPS=[name for name in apps_now() if name not in ours]):
        assert checked() == ["pgqueue.E019"]
        with pytest.raises(ImproperlyConfigured, match="INSTALLED_APPS"):
            defined.add.enqueue(1)


def test_tasks_can_be_defined_before_the_apps_are_ready(environment: dict[str, str]) -> None:
    """Models and apps import modules with tasks: then the backend is made while Django is still starting."""
    program = (
        "from tests.tasks.shop.mail import greet\n"
        "from django.apps import apps\n"
        "assert not apps.ready\n"
        "import django; django.setup()\n"
        "from django_pgqueue.tasks import PgQueueTask, registry\n"
        "assert isinstance(greet, PgQueueTask)\n"
        "assert registry.find_task('tests.tasks.defined.add') is not None\n"
    )
    run_python(program, {**environment, "DJANGO_SETTINGS_MODULE": "tests.tasks.settings"})


def test_without_a_backend_of_ours_nothing_of_the_framework_is_imported(environment: dict[str, str]) -> None:
    program = (
        "import django, sys; django.setup()\n"
        "assert 'django_pgqueue.tasks' not in sys.modules\n"
        "assert 'django_tasks' not in sys.modules\n"
    )
    run_python(program, environment)


def run_python(program: str, environment: dict[str, str]) -> None:
    path = f"{REPOSITORY}:{REPOSITORY / 'testproject'}"
    variables = {**environment, "PYTHONPATH": path}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=variables, cwd=REPOSITORY, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
