from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import django_pgqueue
from django_pgqueue.lifecycle.enqueue import enqueue


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_no_django():
    loaded = run("import sys, django_pgqueue; django_pgqueue.__version__; print(*sys.modules)").split()
    assert "django_pgqueue" in loaded
    assert not [name for name in loaded if name.partition(".")[0] in ("django", "psycopg", "pgtrigger")]


def test_values_can_be_imported_without_django():
    loaded = run("import sys; from django_pgqueue import Complete, Delivery, NewMessage; print(*sys.modules)").split()
    assert not [name for name in loaded if name.partition(".")[0] == "django"]


def test_every_public_name_resolves_and_is_listed():
    for name in django_pgqueue.__all__:
        assert getattr(django_pgqueue, name) is not None
        assert name in dir(django_pgqueue)
    assert django_pgqueue.enqueue is enqueue


def test_every_verb_is_public():
    verbs = {
        "enqueue", "enqueue_many", "aenqueue", "dequeue", "heartbeat", "complete", "defer", "retry", "dead_letter",
        "redrive", "pop", "peek", "metrics", "sweep", "prune", "measure", "channel_set", "channel_pause",
        "channel_resume", "channel_purge", "channel_release", "explain_channel", "explain_message", "handler",
    }  # fmt: skip
    assert verbs <= set(django_pgqueue.__all__)
    assert all(callable(getattr(django_pgqueue, verb)) for verb in verbs)


def test_type_checkers_see_the_names_that_are_resolved():
    tree = ast.parse(Path(django_pgqueue.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (node.module, alias.name) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    homes = django_pgqueue._HOMES.items()
    assert seen == {(f"django_pgqueue.{home}", name) for home, names in homes for name in names.split()}
    assert sorted(name for _, name in seen) == sorted(django_pgqueue.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"django_pgqueue.*nonsense"):
        _ = django_pgqueue.nonsense


def test_the_version_is_that_of_the_distribution():
    assert django_pgqueue.__version__ == version("pgqueue-django")


@pytest.mark.django_db
def test_a_migrated_database_has_a_default_channel():
    assert enqueue("h").created


def test_queue_and_channel_cannot_be_swapped():
    """A queue may come first where no channel can follow without its name."""
    for name in django_pgqueue.__all__:
        try:
            parameters = list(inspect.signature(getattr(django_pgqueue, name)).parameters.values())
        except (TypeError, ValueError):
            continue
        kinds = {parameter.name: (place, parameter.kind) for place, parameter in enumerate(parameters)}
        if "channel" in kinds:
            assert kinds["channel"][1] is inspect.Parameter.KEYWORD_ONLY, name
        if "queue" in kinds and kinds["queue"][1] is not inspect.Parameter.KEYWORD_ONLY:
            assert kinds["queue"][0] == 0, name
