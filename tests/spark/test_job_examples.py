"""The examples of jobs: their commands and options exist, and their files can be parsed."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys

import pytest
import yaml

from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "examples" / "job"


def check_arguments(*arguments: str) -> None:
    """Check that the command line has this command with these options."""
    command, *options = arguments
    helped = subprocess.run(
        [sys.executable, "-m", "django_pgqueue.spark", command, "--help"],
        check=True,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    for option in options:
        assert not option.startswith("--") or option in helped.stdout


def test_the_image_starts_a_command_that_exists() -> None:
    lines = dict(re.findall(r"^(ENTRYPOINT|CMD) (.+)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE))

    assert json.loads(lines["ENTRYPOINT"]) == ["python", "-m", "django_pgqueue.spark"]
    check_arguments(*json.loads(lines["CMD"]))


def test_the_manifest_starts_a_command_that_exists_on_volumes_that_it_names() -> None:
    manifest = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    pod = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]

    check_arguments(*container["args"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_application_of_the_operator_starts_a_command_and_all_its_pods_see_the_lake() -> None:
    manifest = yaml.safe_load((FOLDER / "spark-application.yaml").read_text())
    spec = manifest["spec"]

    assert (manifest["apiVersion"], manifest["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    # Without it the session would be one of the driver alone.
    assert spec["arguments"][spec["arguments"].index("--master") + 1].startswith("k8s://")
    check_arguments(*spec["arguments"])
    main = spec["mainApplicationFile"].partition("site-packages/")[2]
    assert (REPOSITORY / main).is_file()
    lake = {"name": spec["volumes"][0]["name"], "mountPath": spec["arguments"][2]}
    for pod in (spec["driver"], spec["executor"]):
        assert pod["volumeMounts"] == [lake]
    pyspark = importlib.metadata.version("pyspark")
    assert spec["sparkVersion"].rpartition(".")[0] == pyspark.rpartition(".")[0]


@pytest.mark.parametrize("name", ["airflow_dag.py", "dagster_job.py"])
def test_a_program_of_a_scheduler_runs_an_export_before_a_rollup(name: str) -> None:
    text = (FOLDER / name).read_text()
    ast.parse(text)
    commands = re.findall(r'django_pgqueue.spark (\w+)|run\("(\w+)"\)', text)

    assert [one or other for one, other in commands] == ["export", "rollup"]
    for one, other in commands:
        check_arguments(one or other, "--lake")
