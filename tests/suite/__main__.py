"""python -m tests.suite                  the parts of the suite
python -m tests.suite test            one of them, or several
python -m tests.suite rest            all that `test` leaves out
python -m tests.suite changed test    the parts that guard what has changed since --since, then `test`

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
from threading import Timer

from tests.suite.changes import SINCE, changed_files, of_the_last_day
from tests.suite.parts import MAIN, PARTS, QUICK, REST, Part, parts_for, pytest
from tests.support.paths import REPOSITORY

# Seconds that the parts of `changed` may take together, by what they take on two idle cores. One is cut off after
# PATIENCE times as long.
BOX = 400
PATIENCE = 3
# Seconds that a process gets to end after an interruption.
GRACE = 120
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
    results = []
    for name in names:
        results += run_changed(chosen.since) if name == "changed" else [run(name, commands(name))]
    print("\nThe suite:")
    for result in results:
        print(f"  {result}")
    if any(result.verdict == CUT for result in results):
        print(f"NOT EVERYTHING WAS RUN: what is {CUT} took too long, and has failed.")
    for line in [line for result in results for line in result.summaries]:
        print(line)
    return int(any(result.verdict != PASSED for result in results))


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


def run_changed(since: str) -> list[Result]:
    """Run the parts that guard what has changed, the quickest first, as many as fit into BOX. Which ones, and which are
    left to the nightly run, is said first."""
    os.environ[SINCE] = since
    chosen: list[Part] = []
    left: list[Part] = []
    for part in parts_for(changed_files(since)):
        fits = sum(one.seconds for one in [*chosen, part]) <= BOX
        (chosen if fits else left).append(part)
    print(f"Changed since {since[:8] or 'ever'}: {', '.join(part.name for part in chosen) or 'no part of the rest'}")
    if left:
        print(f"Left to the nightly run, because CI has no time for them: {', '.join(part.name for part in left)}")
    sys.stdout.flush()
    results = [run(part.name, commands(part.name), limit=PATIENCE * part.seconds) for part in chosen]
    del os.environ[SINCE]
    return results


def run(name: str, lines: tuple[tuple[str, ...], ...], *, limit: float | None = None) -> Result:
    """Run the commands of a part, all of them.

    name    of the part
    lines   commands, each without `python -m`
    limit   seconds after which it is cut off

    Returns its result.
    """
    began, result = time.monotonic(), Result(name)
    for line in lines:
        left = None if limit is None else max(began + limit - time.monotonic(), 1)
        status, interrupted, said = follow([sys.executable, "-m", *line], left)
        result.summaries += [text for text in said if SUMMARY.match(text)]
        if interrupted:
            result.verdict = CUT
        elif status:
            result.verdict = FAILED
    result.seconds = time.monotonic() - began
    return result


def follow(command: list[str], limit: float | None) -> tuple[int, bool, deque[str]]:
    """Run a command and show what it says.

    limit   seconds until it is interrupted, as by Ctrl+C, or None

    Returns its status, whether it was interrupted, and its last lines.
    """
    said: deque[str] = deque(maxlen=500)
    color = ["--color=yes"] if "pytest" in command and sys.stdout.isatty() else []
    process = subprocess.Popen(
        [*command, *color],
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
    choices = [MAIN, "quick", "changed", "rest", *PARTS]
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(choices))
    parser.add_argument(
        "--since", default=None, help="the commit of `changed`; otherwise that of a day before the last"
    )
    chosen = parser.parse_args()
    chosen.since = of_the_last_day() if chosen.since is None else chosen.since
    if unknown := set(chosen.names) - set(choices):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: choose from {', '.join(choices)}")
    return chosen


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
