"""Settings that another owner of a server may have chosen: `pytest --hostile` runs tests on such a server.

Each is legal, and has been seen with ALTER DATABASE or ALTER ROLE. DateStyle stays ISO, because Django itself reads no
other; tests/lifecycle/test_settings_of_the_server.py takes others.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

GERMAN = "de_DE.UTF-8"
HOSTILE = {
    "lc_messages": GERMAN,
    "array_nulls": "off",
    "backslash_quote": "on",
    "bytea_output": "escape",
    "datestyle": "ISO, DMY",
    "extra_float_digits": "-10",
    "intervalstyle": "iso_8601",
    "plpgsql.extra_errors": "all",
    "plpgsql.variable_conflict": "use_variable",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "timezone": "Asia/Kathmandu",
    "transform_null_equals": "on",
    "xmloption": "document",
}


@contextmanager
def german_locale() -> Iterator[dict[str, str]]:
    """Compile the German locale. Yields the variable by which a server that is started with it finds the locale.

    The variable is missing where the sources of locales are not installed (Debian's package `locales`).
    """
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the server's account reads it
        command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(Path(folder) / GERMAN)]
        made = shutil.which("localedef") and subprocess.run(command, capture_output=True, check=False).returncode == 0
        yield {"LOCPATH": folder} if made else {}
