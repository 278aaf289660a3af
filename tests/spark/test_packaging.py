from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

BUILD = "import hatchling.build, sys; print(getattr(hatchling.build, sys.argv[1])(sys.argv[2]))"


def build(what: str, folder: Path) -> zipfile.ZipFile:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(folder)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return zipfile.ZipFile(folder / done.stdout.split()[-1])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build("build_wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_the_provider_at_the_top(wheel: zipfile.ZipFile):
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert tops == {"django_pgqueue", "pyspark_pgqueue"}
    assert not [name for name in wheel.namelist() if "provider" in name]


def test_the_wrapper_of_java_can_be_executed(wheel: zipfile.ZipFile):
    [wrapper] = [entry for entry in wheel.infolist() if entry.filename == "django_pgqueue/spark/jre/bin/java"]
    assert wrapper.external_attr >> 16 & 0o111 == 0o111
    assert "django_pgqueue/spark/log4j2.properties" in wheel.namelist()


def test_an_editable_install_finds_the_provider_too(tmp_path: Path):
    editable = build("build_editable", tmp_path)
    [pth] = [name for name in editable.namelist() if name.endswith(".pth")]
    assert editable.read(pth).decode().splitlines() == [
        str(REPOSITORY),
        str(REPOSITORY / "django_pgqueue/spark/provider"),
    ]


def test_the_installed_wheel_is_imported_without_django(wheel: zipfile.ZipFile, tmp_path: Path):
    wheel.extractall(tmp_path)
    code = "import sys, pyspark_pgqueue; print(pyspark_pgqueue.__file__); print(*sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    path, modules = done.stdout.splitlines()
    assert Path(path) == tmp_path / "pyspark_pgqueue" / "__init__.py"
    assert "django" not in modules.split()
