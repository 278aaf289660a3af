"""The files of the wheel and of the source distribution. That the wheel works is part of the matrix: see package.py."""

from __future__ import annotations

import re
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.docs import llms
from tests.support.paths import REPOSITORY
from verification.compatibility.package import build

TREE = REPOSITORY / "django_pgqueue"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("build_wheel", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_everything_of_the_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """SQL, templates, what browsers load, and py.typed among it."""
    there = {
        path.relative_to(REPOSITORY).as_posix()
        for path in TREE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "provider" not in path.parts
    }
    assert there <= set(wheel.namelist())
    assert "django_pgqueue/py.typed" in there
    assert "django_pgqueue/sql/functions/dequeue/pgqueue_dequeue_v01.sql" in there
    assert len([name for name in there if name.endswith(".sql")]) > 50


def test_nothing_else_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"django_pgqueue", "pyspark_pgqueue"}


def test_a_wheel_can_be_built_from_the_source_distribution(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    with tarfile.open(build("build_sdist", tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = [path for path in tmp_path.iterdir() if path.is_dir()]
    again = zipfile.ZipFile(build("build_wheel", tmp_path, source))
    assert sorted(again.namelist()) == sorted(wheel.namelist())
    for file in ("LICENSE", "CHANGELOG.md", "llms.txt", "tests/conftest.py", "docs/index.md"):
        assert (source / file).exists()


def test_every_extra_is_declared(metadata: Message) -> None:
    extras = {"spark", "embedded", "tasks", "testing", "cron", "prometheus", "opentelemetry", "otel", "sentry", "pool"}
    assert extras | {"c"} <= set(metadata.get_all("Provides-Extra", []))


def test_the_licence_is_declared_and_there(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert metadata["License-Expression"] == "MIT"
    [licence] = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
    assert wheel.read(licence) == (REPOSITORY / "LICENSE").read_bytes()


def test_llms_txt_lists_the_pages_of_the_index() -> None:
    assert llms.FILE.read_text() == llms.text(), "write it anew: python -m tests.docs.llms"
    targets = re.findall(r"\]\(([^)#]+)", llms.text())
    assert len(targets) > 40
    assert [target for target in targets if not (REPOSITORY / target).exists()] == []
