"""``python -m django_pgqueue.spark`` finds the command and reports an error in one line.

Each command is a module of its name beside this one, with ``add_arguments(parser)`` and ``run(args)``, which returns
the exit status. It is imported only when it is asked for, and imports Spark only when it runs.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import time
import traceback
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import NoReturn

from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.redaction import redact_secrets, secrets_of

COMMANDS = {
    "export": "bring what is new in the archive to the lake",
    "run": "export, roll up and compact in turn, also again and again",
    "verify": "check that the lake is whole",
    "rollup": "compute the metrics of the days that changed",
    "compact": "merge small files of the lake",
    "publish": "copy what is new in the lake to an object store",
    "report": "write a page with plots",
    "erase": "remove all rows of a channel",
    "redrive": "put dead letters back into their queues",
}
# The last line of a traceback shows the error like this.
OF_TASK = re.compile(r"^(?:.*: )?django_pgqueue\.spark\.[a-z_.]+\.[A-Z]\w*: (.+)$", re.MULTILINE)
INTERRUPTED = 130
TERMINATED = 143
# The modules that the extra installs.
EXTRA = ("pyspark", "deltalake", "pyarrow", "numpy", "adbc_driver_manager", "adbc_driver_postgresql")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    # Spark passes timestamps to Python in local time, without a time zone.
    os.environ["TZ"] = "UTC"
    time.tzset()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        args = _parser(arguments).parse_args(arguments)
        status: int = args.run(args)
        return status
    except PipelineError as error:
        return _fail(str(error), arguments)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            return _fail(traceback.format_exc(), arguments)
        return _fail(f"{package} is not installed: pip install 'pgqueue-django[spark]'.", arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return _fail(str(refused_by_disk(error) or traceback.format_exc()), arguments)
    except Exception as error:
        return _fail(_said_by_task(error) or traceback.format_exc(), arguments)


def _parser(arguments: Sequence[str]) -> ArgumentParser:
    """Return a parser that knows all commands, and the arguments of the command that is asked for."""
    parser = ArgumentParser(prog="python -m django_pgqueue.spark", description="The archive as a data product.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, purpose in COMMANDS.items():
        if name != asked:
            commands.add_parser(name, help=purpose)
            continue
        module = importlib.import_module(f"{__package__}.{name}")
        command = commands.add_parser(
            name, help=purpose, description=module.__doc__, formatter_class=RawDescriptionHelpFormatter
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _said_by_task(error: BaseException) -> str | None:
    """Return the message of a PipelineError that a task raised, or None for another error.

    Spark wraps such an error into pages of tracebacks; the message is one line of them.
    """
    if found := OF_TASK.search(str(error)):
        return found[1]
    return None


def _fail(text: str, arguments: Sequence[str]) -> int:
    print(redact_secrets(text.rstrip("\n"), secrets_of(*arguments)), file=sys.stderr)
    return 1


def _terminate(number: int, frame: object) -> NoReturn:
    # Raise SystemExit, so that the session is stopped and its files are removed.
    sys.exit(TERMINATED)
