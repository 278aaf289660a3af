"""Where the peers are installed: each for itself under .pgqueue/peers, never beside the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django_pgqueue import __version__
from tests.support.paths import REPOSITORY
from verification.benchmarks.machine import facts

HOME = REPOSITORY / ".pgqueue" / "peers"
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class PipEnvironment:
    """A virtual environment with pinned packages; the first one is the contestant."""

    requirements: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def package(self) -> str:
        return self.requirements[0].partition("=")[0].partition("[")[0]

    @property
    def folder(self) -> Path:
        return HOME / self.package

    @property
    def interpreter(self) -> str:
        return str(self.folder / "bin" / "python")

    def missing(self) -> str | None:
        return None

    def installed(self) -> bool:
        return _receipt(self.folder, self.requirements).exists()

    def install(self) -> None:
        run(sys.executable, "-m", "venv", "--clear", str(self.folder))
        run(self.interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.requirements)
        _receipt(self.folder, self.requirements).touch()

    def version(self) -> str:
        code = f"from importlib.metadata import version; print(version({self.package!r}))"
        return run(self.interpreter, "-c", code).strip()

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(PROGRAMS), **dict(self.variables)}

    def file(self, name: str) -> Path:
        """A file that a package brings, by its path below site-packages."""
        (found,) = self.folder.glob(f"lib/python3.*/site-packages/{name}")
        return found


@dataclass(frozen=True, slots=True)
class NpmEnvironment:
    """A folder with node_modules; the first package is the contestant. With `node` it brings its Node.js."""

    requirements: tuple[str, ...]

    @property
    def package(self) -> str:
        return self.requirements[0].partition("@")[0]

    @property
    def folder(self) -> Path:
        return HOME / self.package

    @property
    def modules(self) -> Path:
        return self.folder / "node_modules"

    @property
    def interpreter(self) -> str:
        own = any(requirement.startswith("node@") for requirement in self.requirements)
        return str(self.modules / "node" / "bin" / "node") if own else "node"

    def missing(self) -> str | None:
        absent = [program for program in ("node", "npm") if not shutil.which(program)]
        return f"{' and '.join(absent)} not found" if absent else None

    def installed(self) -> bool:
        return _receipt(self.folder, self.requirements).exists()

    def install(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(self.folder), *self.requirements)
        _receipt(self.folder, self.requirements).touch()

    def version(self) -> str:
        manifest = json.loads((self.modules / self.package / "package.json").read_text())
        return f"{manifest['version']}, Node.js {run(self.interpreter, '--version').strip()}"

    def environment(self) -> dict[str, str]:
        return {"PEER_HOME": str(self.folder)}


@dataclass(frozen=True, slots=True)
class OurEnvironment:
    """The interpreter that runs this, and this tree."""

    interpreter: str = sys.executable

    def missing(self) -> str | None:
        return None

    def installed(self) -> bool:
        return True

    def version(self) -> str:
        return f"{__version__} ({facts()['commit']})"

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(REPOSITORY), "DJANGO_SETTINGS_MODULE": "verification.benchmarks.settings"}


Environment = PipEnvironment | NpmEnvironment | OurEnvironment


def clean(environment: Environment, more: Mapping[str, str]) -> dict[str, str]:
    """This process's variables without those that would lead a peer to our project."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE", "PYTHONPATH")}
    return {**kept, **environment.environment(), **more}


def _receipt(folder: Path, pinned: tuple[str, ...]) -> Path:
    """Names what was installed: another pin means installing anew."""
    return folder / f".installed {' '.join(pinned)}"


def run(*command: str, folder: Path | None = None) -> str:
    """Run a command, in a folder if one is given, and return what it printed. Raises RuntimeError if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
