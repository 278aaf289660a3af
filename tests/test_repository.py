"""The surroundings of the code: the workflow, the hooks, the pinned tools and the forms agree with the project."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import REPOSITORY
from verification.compatibility.plan import DJANGOS, PYTHONS, combinations

WORKFLOW = REPOSITORY / ".github" / "workflows" / "ci.yml"
NIGHTLY = WORKFLOW.with_name("nightly.yml")
FORMS = [REPOSITORY / ".github" / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "feature.yml")]
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
MAKEFILE = (REPOSITORY / "Makefile").read_text()
# Requirements of these extras are tools; but for the other queues, of which each new release is tried.
TOOLS, PEERS = (
    ("test", "testing", "docs", "dev", "all"),
    {"celery", "procrastinate", "django-tasks-db", "opentelemetry-sdk", "pyyaml"},
)
# Tools that no extra names: to build and publish, and what other tools stand on.
BESIDE = {"build", "twine", "grimp", "django-stubs-ext"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def jobs() -> dict[str, Any]:
    return load(WORKFLOW)["jobs"]


def classified(title: str) -> list[str]:
    found = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if text.startswith(f"{title} ::")]
    return sorted(version for version in found if "." in version)


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", text)[0].lower() for text in requirements} - {PROJECT["name"]}


def test_the_workflow_runs_the_versions_of_the_classifiers():
    matrix = jobs()["matrix"]["strategy"]["matrix"]
    assert matrix["python"] == classified("Programming Language :: Python")
    assert matrix["django"] == classified("Framework :: Django")
    left_out = {(one["python"], one["django"]) for one in matrix["exclude"]}
    exist = {(one.python, one.django) for one in combinations()}
    assert {(python, django) for python in PYTHONS for django in DJANGOS} - exist == left_out


def test_the_suite_runs_on_the_newest_python():
    [setup] = [step["with"] for step in jobs()["suite"]["steps"] if "setup-python" in step.get("uses", "")]
    assert setup["python-version"] == PYTHONS[-1]


@pytest.mark.parametrize("path", [WORKFLOW, NIGHTLY], ids=lambda path: path.stem)
def test_a_workflow_may_read_and_nothing_else(path: Path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "permissions" in job] == []
    assert "secrets." not in path.read_text()
    assert "pull_request_target" not in path.read_text()


@pytest.mark.parametrize("path", [WORKFLOW, NIGHTLY], ids=lambda path: path.stem)
def test_a_workflow_ends_and_gives_way_to_the_next_one(path: Path):
    workflow = load(path)
    assert "github.ref" in workflow["concurrency"]["group"]
    assert all(job.get("timeout-minutes", 0) > 0 for job in workflow["jobs"].values())


@pytest.mark.parametrize("path", [WORKFLOW, NIGHTLY], ids=lambda path: path.stem)
def test_actions_are_pinned_to_commits_with_their_version_beside(path: Path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert [text for text in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", text)] == []


def test_the_nightly_run_is_everything():
    [job] = load(NIGHTLY)["jobs"].values()
    assert "make test-all" in [step.get("run") for step in job["steps"]]


def test_each_job_calls_the_script_that_contributors_call():
    for name, job in jobs().items():
        assert [step["run"] for step in job["steps"] if step.get("run", "").startswith(".ci/run")], name


@pytest.mark.parametrize(
    ("arguments", "status", "called"),
    [
        ((), 0, ["lint", "test PARTS=changed test"]),
        (("3.13", "6.1"), 0, ["matrix ARGS=--strict --only 3.13 6.1"]),
        (("3.13",), 2, []),
    ],
    ids=["all", "one combination", "half of one"],
)
def test_the_script_of_ci_calls_its_targets(tmp_path: Path, arguments: tuple[str, ...], status: int, called: list[str]):
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "make $*"\n')
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [REPOSITORY / ".ci" / "run", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line.removeprefix("make ") for line in done.stdout.splitlines()]
    assert (done.returncode, len(lines)) == (status, len(called))
    assert all(line.startswith(expected) for line, expected in zip(lines, called, strict=True))


def test_hooks_run_the_tools_of_the_project_as_make_lint_does():
    repositories = load(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    assert [one["repo"] for one in repositories] == ["local"], "a tool from elsewhere has a version of its own"
    hooks = {hook["id"]: hook for hook in repositories[0]["hooks"]}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    assert all(".venv/bin/" in hook["entry"] for hook in hooks.values())
    lint = MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0].replace("$(VENV)", ".venv")
    for name in ("ruff-check", "ruff-format", "mypy"):
        command = hooks[name]["entry"].removeprefix("env ").removesuffix(" --force-exclude")
        assert f"\t{command}" in lint, name
    assert (REPOSITORY / hooks["sql-tests"]["entry"].split()[-1]).is_dir()


def pins() -> dict[str, str]:
    lines = [
        line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")
    ]
    return dict(line.split("==") for line in lines)


def test_each_tool_has_an_exact_version_and_what_the_package_works_with_has_none():
    extras = PROJECT["optional-dependencies"]
    tools = names([text for extra in TOOLS for text in extras[extra]]) - PEERS
    assert set(pins()) == tools | BESIDE
    assert set(pins()).isdisjoint(names(PROJECT["dependencies"]))
    assert all(re.fullmatch(r"\d+(\.\d+)+", version) for version in pins().values())


def test_make_installs_with_the_exact_versions_and_again_when_they_change():
    assert "$(READY): pyproject.toml constraints.txt\n" in MAKEFILE
    assert "$(WHOLE): $(READY)\n" in MAKEFILE
    assert "--constraint constraints.txt --editable\n" in MAKEFILE
    assert MAKEFILE.count("pip install") == 1


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_for_issues_has_what_is_needed(form: Path):
    content = load(form)
    assert content["name"]
    assert content["description"]
    ids = [field["id"] for field in content["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    assert any(field.get("validations", {}).get("required") for field in content["body"])
