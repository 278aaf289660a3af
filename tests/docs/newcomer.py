"""A reader who follows a page: types its commands, writes its files, compares each output with the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.markdown import Block
from tests.support.paths import REPOSITORY

# Runs a block of `>>>` lines; the first answer that is another one is the exit status 1.
SESSION = """
import doctest, sys
test = doctest.DocTestParser().get_doctest(open({path!r}).read(), {{}}, {page!r}, {page!r}, {line})
sys.exit(doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.FAIL_FAST).run(test).failed)
"""


class Newcomer:
    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
            # The matrix puts its Django before this one.
            "PYTHONPATH": os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(REPOSITORY)])),
            "PYTHONWARNINGS": "error",
        }

    def follow(self, blocks: list[Block], page: str) -> None:
        for block in blocks:
            if "no-run" in block.words:
                continue
            if file := block.option("file"):
                self.write(file, block.text)
            elif file := block.option("append"):
                self.write(file, (self.folder / file).read_text() + "\n" + block.text)
            elif block.language == "console":
                self.type(block, page)
            elif block.language == "pycon":
                self.converse(block, page)

    def write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def type(self, block: Block, page: str) -> None:
        """Run each `$ command`; the lines below it must come, in any order, `…` being anything."""
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, *expected = part.splitlines()
            said = self.run(shlex.split(command), f"{page}:{block.line}: {command}")
            for line in filter(None, map(str.strip, expected)):
                pattern = ".*".join(re.escape(text) for text in line.split("…"))
                assert re.search(pattern, said), f"{page}:{block.line}: {command}\nno line {line!r} in\n{said}"

    def converse(self, block: Block, page: str) -> None:
        script = self.folder / "session.txt"
        script.write_text(block.text)
        code = SESSION.format(path=str(script), page=page, line=block.line - 1)
        self.run([sys.executable, "manage.py", "shell", "-v0", "-c", code], f"{page}:{block.line}")

    def run(self, command: list[str], what: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,  # a job of Spark takes long on a busy machine
            check=False,
        )
        assert done.returncode == 0, f"{what} ended with status {done.returncode}:\n{done.stdout}"
        return done.stdout
