"""The daemons of a cluster start as the guide says, also where the only Java is that of the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import REPOSITORY

TOOLS = ("bash", "basename", "cat", "dirname", "env", "ls", "mktemp", "rm", "sed", "sh", "tr")


def test_the_programs_of_spark_find_java_with_the_variables_of_the_guide(tmp_path: Path) -> None:
    """Neither PATH nor JAVA_HOME has Java."""
    guide = (REPOSITORY / "docs/how-to/cluster.md").read_text()
    [first] = {*re.findall(r"^\$ (eval .+)$", guide, re.MULTILINE)}
    [program] = {*re.findall(r"^\$ (\$SPARK_HOME/bin/spark-class \S+\.Master) ", guide, re.MULTILINE)}
    for name in TOOLS:
        (tmp_path / name).symlink_to(shutil.which(name) or name)

    done = subprocess.run(
        ["bash", "-c", f"{first.replace('python', sys.executable)}; {program} --help"],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Usage: Master" in done.stdout + done.stderr, done.stderr
