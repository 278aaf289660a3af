"""python -m tests.suite                  the parts of the suite
python -m tests.suite test            one of them, or several
python -m tests.suite rest            all that `test` leaves out
python -m tests.suite today test      the part of the rest whose turn it is, for ten minutes, then `test`

If a part fails, the next one runs all the same. The last lines have the result of each, and the summaries of pytest.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from threading import Timer

from tests.suite.parts import DAY, MAIN, PARTS, QUICK, REST, part_of_the_day, pytest
from tests.suite.plugin import CUT_OFF, UNTIL
from tests.support.paths import REPOSITORY

BOX = 600  # seconds
# Seconds that a test which has begun in time gets to end, and that pytest gets to end after an interruption.
GRACE = 120
ENDING = 60
SUMMARY = re.compile(r"^(?:\x1b\[\d+m)*=+ .* in [\d.]+s\b.*=+(?:\x1b\[\d+m)*$")
PASSED, FAILED, CUT = "passed", "FAILED", "CUT OFF"


@dataclass(slots=True)
class Result:
    name: str
    verdict: str = PASSED
    seconds: float = 0
    summaries: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.verdict:8} {self.name}: {self.seconds:.0f} s"


def main() -> int:
    chosen = arguments()
    if not chosen.names:
        for part in REST:
            print(f"  {part.name:14} {part.about}")
        return 0
    compile_what_is_started()
    names = [name for given in chosen.names for name in (PARTS if given == "rest" else [given])]
    results = [run_today(chosen.date) if name == "today" else run(name, commands(name)) for name in names]
    print("\nThe suite:")
    for result in results:
        print(f"  {result}")
    if any(result.verdict == CUT for result in results):
        print(f"NOT EVERYTHING WAS RUN: of a part that is {CUT}, the tests that had not begun say nothing.")
    for line in [line for result in results for line in result.summaries]:
        print(line)
    return int(any(result.verdict == FAILED for result in results))


def compile_what_is_started() -> None:
    """Compile what the tests start in processes, some hundred times. Where PYTHONDONTWRITEBYTECODE is set, Python reads
    what is compiled, and does not write it."""
    for folder in ("django_pgqueue", "testproject", "tests/worker"):
        compileall.compile_dir(REPOSITORY / folder, quiet=2)


def commands(name: str) -> tuple[tuple[str, ...], ...]:
    """Return what a part runs, after `python -m`. A part of the rest runs its slow tests, too."""
    if name == MAIN:
        return (pytest("--part=test"),)
    if name == "quick":
        return (pytest("--part=quick", *files(QUICK)),)
    part = PARTS[name]
    return part.commands or (pytest(f"--part={name}", "-m", "", *files(part.tests), parallel=part.parallel),)


def files(names: Iterable[str]) -> list[str]:
    """Return where tests of these names are, so that no other file is read."""
    return sorted({name.partition("::")[0] for name in names})


def run_today(day: date) -> Result:
    """Run the part of that day in its time box. A part that is cut off is no failure, and the last lines say so."""
    part = part_of_the_day(day)
    print(f"The part of {day}: {part.name}, {part.about}; at most {BOX} s", flush=True)
    return run(part.name, commands(part.name), box=BOX, day=day)


def run(name: str, lines: tuple[tuple[str, ...], ...], *, box: float | None = None, day: date | None = None) -> Result:
    """Run the commands of a part, all of them.

    name    of the part
    lines   commands, each without `python -m`
    box     seconds after which no test begins; one that has begun gets GRACE seconds more
    day     decides what a part tries that does not try all of its list each time

    Returns its result.
    """
    began, result = time.monotonic(), Result(name)
    environment = dict(os.environ)
    if box is not None:
        environment[UNTIL] = str(time.time() + box)
    if day is not None:
        environment[DAY] = day.isoformat()
    for line in lines:
        left = None if box is None else max(began + box + GRACE - time.monotonic(), 1)
        status, interrupted, said = follow([sys.executable, "-m", *line], environment, left)
        result.summaries += [text for text in said if SUMMARY.match(text)]
        if interrupted or any(CUT_OFF in text for text in said):
            result.verdict = CUT if result.verdict == PASSED else result.verdict
        if status and not interrupted:
            result.verdict = FAILED
    result.seconds = time.monotonic() - began
    return result


def follow(command: list[str], environment: dict[str, str], limit: float | None) -> tuple[int, bool, deque[str]]:
    """Run a command and show what it says.

    limit   seconds until it is interrupted, as by Ctrl+C, or None

    Returns its status, whether it was interrupted, and its last lines.
    """
    said: deque[str] = deque(maxlen=500)
    color = ["--color=yes"] if "pytest" in command and sys.stdout.isatty() else []
    process = subprocess.Popen(
        [*command, *color],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A shell that runs this in the background has SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        interrupted: list[int] = []
        timers = [Timer(limit, interrupt, (process, interrupted))] if limit else []
        timers += [Timer(limit + GRACE, process.kill)] if limit else []
        for timer in timers:
            timer.start()
        assert process.stdout is not None
        line = b""
        while chunk := process.stdout.read1():
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
            *whole, line = (line + chunk).split(b"\n")
            said.extend(text.decode(errors="replace") for text in whole)
        status = process.wait()
        for timer in timers:
            timer.cancel()
    return status, bool(interrupted), said


def interrupt(process: subprocess.Popen[bytes], interrupted: list[int]) -> None:
    interrupted.append(process.pid)
    process.send_signal(signal.SIGINT)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    choices = [MAIN, "quick", "today", "rest", *PARTS]
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(choices))
    parser.add_argument("--date", type=date.fromisoformat, default=date.today(), help="the day of `today`")  # noqa: DTZ011
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(choices):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: choose from {', '.join(choices)}")
    return chosen


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
