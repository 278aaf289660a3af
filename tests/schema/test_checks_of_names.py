"""Names that are enqueued and that no handler has, found in the sources of the installed apps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test.utils import modify_settings

from django_pgqueue import handlers
from django_pgqueue.checks import enqueued

App = Callable[..., None]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """`app(models="…")`: an installed app with these modules; importing one of them is an error."""
    root = tmp_path / "shop_of_test"
    root.mkdir()
    (root / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with modify_settings(INSTALLED_APPS={"append": "shop_of_test"}):

        def app(**modules: str) -> None:
            for name, source in modules.items():
                path = root / f"{name.replace('__', '/')}.py"
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"raise AssertionError('imported')\n{source}")

        yield app
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop_of_test"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    handlers.handler("shop.known")(lambda delivery: None)
    yield
    handlers.unregister("shop.known")


def found() -> dict[str, str]:
    """The names, and the message about each."""
    messages = enqueued.enqueued_messages()
    assert {message.id for message in messages} <= {"pgqueue.W021"}
    return {message.msg.split("'")[1]: message.msg for message in messages}


def test_a_misspelt_name_is_found_with_its_place(app: App) -> None:
    source = (
        "from django_pgqueue import enqueue\n\ndef view():\n    enqueue('shop.knwon', {})\n    enqueue('shop.known')\n"
    )
    app(views=source)
    assert list(found()) == ["shop.knwon"]
    assert "shop_of_test/views.py:5." in found()["shop.knwon"]


@pytest.mark.parametrize(
    "source",
    [
        "from django_pgqueue import aenqueue as later\nlater('x')",
        "from django_pgqueue.lifecycle.enqueue import enqueue\nenqueue(handler='x')",
        "from django_pgqueue import NewMessage\nNewMessage(payload=1, handler='x')",
        "from django_pgqueue import schedule\nschedule('@daily', handler='x')(function)",
        "import django_pgqueue\ndjango_pgqueue.enqueue('x')",
        "import django_pgqueue as queue\nqueue.enqueue('x')",
    ],
)
def test_all_ways_to_enqueue_are_known(app: App, source: str) -> None:
    app(tools=source)
    assert list(found()) == ["x"]


@pytest.mark.parametrize(
    "source",
    [
        "from celery_like import enqueue\nenqueue('x')  # not of django_pgqueue",
        "from django_pgqueue import schedule\n@schedule('0 3 * * *')\ndef known(delivery): ...",
        "from django_pgqueue import enqueue\nenqueue(name)\nenqueue(f'{app}.x')\nother.enqueue('x')",
        "from django_pgqueue import enqueue\nthis is no Python: enqueue('x')",
        "from django_pgqueue import handler\n@handler('x')\ndef x(delivery): ...",
    ],
)
def test_names_that_cannot_be_known_or_belong_to_others_are_left_alone(app: App, source: str) -> None:
    app(tools=source)
    assert found() == {}


def test_tests_migrations_and_what_is_installed_are_not_looked_at(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from django_pgqueue import enqueue\nenqueue('x')"
    app(tests__test_views=source, test_models=source, conftest=source, migrations__data=source)
    assert found() == {}
    app(views=source)
    assert list(found()) == ["x"]
    monkeypatch.setattr(enqueued, "INSTALLED", {*Path(__import__("shop_of_test").__path__[0]).parts})
    assert found() == {}


def test_a_handler_that_a_command_registers_counts(app: App) -> None:
    app(
        views="from django_pgqueue import enqueue\nenqueue('x')",
        management__play="from django_pgqueue import handler\n@handler('x')\ndef x(delivery): ...",
    )
    assert found() == {}


def test_many_places_are_counted(app: App) -> None:
    app(views="from django_pgqueue import enqueue\n" + "enqueue('x')\n" * 5)
    assert found()["x"].endswith("views.py:5 and 2 more.")


def test_a_broken_module_of_handlers_is_reported_instead(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app(views="from django_pgqueue import enqueue\nenqueue('x')")
    monkeypatch.setitem(handlers.broken, "shop.handlers", "SyntaxError")
    assert found() == {}


def test_the_demo_enqueues_what_it_handles() -> None:
    assert found() == {}
