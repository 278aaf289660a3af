import errno
import os
import re
from pathlib import Path

# The tables and functions of the app django_pgqueue.pipeline, as an error of PostgreSQL names them.
PIPELINE = re.compile(r"\bpgqueue_(lake|queue_metric|ingest)")
NO_TABLES = (
    "It lacks tables or functions of the pipeline: "
    'add "django_pgqueue.pipeline" to INSTALLED_APPS and run manage.py migrate.'
)
# Errors with which a disk or its file system refuses a write, and the remedy for each.
REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or raise the quota",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
    errno.EFBIG: "raise the limit of the size of files",
    errno.EROFS: "mount it writable, or give another folder",
    errno.EIO: "look at the disk",
}
OS_ERROR = re.compile(r"\(os error (\d+)\)")


class PipelineError(Exception):
    """The pipeline cannot do what was asked; the message is one line that says what to do."""


def refused_by_disk(error: Exception) -> PipelineError | None:
    """Return the error for a file that the system does not let us write, or None for an error of another kind.

    Arrow's errors have the number of the system's error, too, but not the name of the file; delta-rs only has it in
    its text.
    """
    found = OS_ERROR.search(str(error))
    number = getattr(error, "errno", None) or (int(found[1]) if found else None)
    if number not in REMEDIES:
        return None
    name = getattr(error, "filename", None)
    where = f": {name}" if name else ""
    return PipelineError(
        f"The lake cannot be written: {os.strerror(number)}{where}. {REMEDIES[number].capitalize()}, and run it again."
    )


def unreadable(path: Path) -> PipelineError:
    """Return the error about a file of the lake that cannot be read."""
    anew = "rollup --all" if "/metrics/grain=" in str(path) else "export --rescan"
    return PipelineError(
        f"{path} cannot be read, it is damaged or gone: see with verify what else is, and restore it from a "
        f"backup, or remove it and run {anew}."
    )
