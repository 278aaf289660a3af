"""What a run is about: the files that have changed since a commit. Where git cannot tell, as in a copy without its
history, everything has changed."""

from __future__ import annotations

import os
import subprocess

from tests.support.paths import REPOSITORY

# The commit since which changes count; tests that choose among themselves read it. Without it, they choose all.
SINCE = "PGQUEUE_TEST_SINCE"


def of_the_last_day() -> str:
    """Return the last commit that is a day older than the newest one, or the empty string."""
    newest = git("log", "-1", "--format=%ct")
    return git("rev-list", "-1", f"--before={int(newest) - 86_400}", "HEAD") if newest else ""


def changed_files(since: str, *options: str) -> list[str]:
    """Return the paths of the files that differ from the commit ``since``; of all files, if git does not know it.

    ``options``: of ``git diff``.
    """
    known = since and git("rev-parse", "--verify", "--quiet", f"{since}^{{commit}}")
    names = git("diff", "--name-only", *options, known) if known else git("ls-files") or "django_pgqueue/sql/"
    return names.splitlines()


def changed_functions() -> set[str] | None:
    """Return the names of the SQL functions, without `pgqueue_`, that a run for changes is about; None: of all."""
    if (since := os.environ.get(SINCE)) is None:
        return None
    changed = changed_files(since, "--find-renames=100%", "--diff-filter=AM")  # not those that have only moved
    names = (path.rpartition("/")[2] for path in changed if path.endswith(".sql"))
    return {name.removeprefix("pgqueue_").rpartition("_v")[0] for name in names}


def git(*arguments: str) -> str:
    """Return what git says, without the last newline; nothing, if it fails or is not there."""
    try:
        said = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
