"""python -m verification.compatibility                every combination that exists, the telling tests of each
python -m verification.compatibility --whole        all tests that need only the queue and a server
python -m verification.compatibility --others       all but that of this Python, on which the suite itself runs
python -m verification.compatibility --only 3.13 6.1
python -m verification.compatibility --wheel        the wheel alone, in an empty environment; `--wheel FILE`: that one

A combination for which this machine has no Python is skipped, loudly; `--strict` fails instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock

import django

from django_pgqueue.embedded import find_all
from tests.support.paths import REPOSITORY
from verification.compatibility import environments, interpreters, package
from verification.compatibility.environments import NotInstalled
from verification.compatibility.plan import PYTHONS, TELLING, WHOLE, Combination, combinations

RUN, FAILED, SKIPPED = "passed", "FAILED", "SKIPPED"
PACKAGE = "The wheel in an empty environment"
# The result, its reason, and the output where a reader needs it.
Result = tuple[str, str, str]
installing = Lock()


def main() -> int:
    chosen = arguments()
    known = [one for one in combinations() if not (chosen.others and is_this(one))]
    wanted = [one for one in known if {one.python, one.django}.issuperset(chosen.only)]
    if not wanted:
        print(f"no {'other ' * chosen.others}combination has {' and '.join(chosen.only)}")
        return 0 if chosen.others else 2
    tests = chosen.tests or (WHOLE if chosen.whole else TELLING)
    jobs: dict[str, Callable[[], Result]] = {str(one): partial(attempt, one, tests) for one in wanted}
    if chosen.wheel is not None:
        jobs.clear()
    if not chosen.only:
        jobs[PACKAGE] = partial(try_package, chosen.wheel)
    # Two at a time: a test waits for its server half of the time, and with more of them clocks would run out.
    with ThreadPoolExecutor(chosen.jobs) as pool:
        results = list(pool.map(lambda name: announce(name, *jobs[name]()), jobs))
    print("\nThe matrix:")
    for name, (what, why) in zip(jobs, results, strict=True):
        print(f"  {what:8} {name}: {why}")
    outcomes = {what for what, _ in results}
    if SKIPPED in outcomes:
        print("NOT EVERYTHING WAS RUN: see SKIPPED. Install the Python that is missing, by pyenv or uv.")
    return int(FAILED in outcomes or RUN not in outcomes or (chosen.strict and SKIPPED in outcomes))


def is_this(combination: Combination) -> bool:
    python, version = ".".join(map(str, sys.version_info[:2])), ".".join(map(str, django.VERSION[:2]))
    return (combination.python, combination.django) == (python, version)


def attempt(combination: Combination, tests: Sequence[str]) -> Result:
    interpreter = interpreters.find(combination.python)
    if interpreter is None:
        return SKIPPED, f"no Python {combination.python} on this machine", ""
    server = next(iter(find_all(combination.server) or find_all("auto")), None)
    if server is None:
        return SKIPPED, "no PostgreSQL on this machine", ""
    try:
        with installing:
            environment = environments.python(interpreter, combination.python)
            folders = [environments.django(combination.django, environment)]
            environments.django_tests(folders[0], environment)
    except NotInstalled as problem:
        return FAILED, "it cannot be installed", str(problem)
    if combination.psycopg == "c":
        try:
            folders.append(environments.psycopg_in_c(combination.python, environment))
        except NotInstalled as problem:
            return (
                SKIPPED,
                "psycopg cannot be compiled here: a C compiler or the headers of libpq are missing",
                str(problem),
            )
    with installing:
        environments.compiled(combination.python, environment, *folders)
    return run(combination, environment, folders, tests, str(server.folder))


def run(combination: Combination, environment: Path, folders: list[Path], tests: Sequence[str], server: str) -> Result:
    began = time.monotonic()
    command = [str(environment / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--pg={server}"]
    done = subprocess.run(
        [*command, *tests],
        cwd=REPOSITORY,
        env=environments.variables(combination, *folders),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    summary = done.stdout.strip().splitlines()[-1:] or ["no output"]
    took = f"{summary[0].strip('= ')}; {time.monotonic() - began:.0f} s with its start"
    return (FAILED, took, done.stdout) if done.returncode else (RUN, took, "")


def try_package(wheel: str | None) -> Result:
    interpreter = next(filter(None, map(interpreters.find, reversed(PYTHONS))), sys.executable)
    try:
        return RUN, package.try_out(interpreter, Path(wheel).resolve() if wheel else None), ""
    except NotInstalled as problem:
        return FAILED, "it does not work", str(problem)


def announce(name: str, what: str, why: str, output: str) -> tuple[str, str]:
    print(f"{output}\n{what}: {name}: {why}" if output else f"{what}: {name}: {why}", flush=True)
    return what, why


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification.compatibility", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--whole", action="store_true", help="all tests that need only the queue and a server")
    parser.add_argument("--others", action="store_true", help="not the combination that this Python has")
    parser.add_argument("--only", nargs="+", default=[], metavar="VERSION", help="of Python or Django, or of both")
    about = "no combination, but the wheel alone: this file, or one that is built now"
    parser.add_argument("--wheel", nargs="?", const="", metavar="FILE", help=about)
    parser.add_argument("--tests", nargs="+", type=str, default=(), metavar="PATH", help="these tests")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--strict", action="store_true", help="fail where something must be skipped")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
