"""The examples of jobs: their commands and options exist, and their files can be parsed."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest
import yaml

from django_pgqueue.spark.cli import main
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "examples" / "job"


# The user of the images, which is also that of Spark's own.
USER = 185


def check_below(arguments: list[str], mounts: list[dict[str, str]]) -> None:
    """Check that the lake is a folder in a volume. A volume may have `lost+found`, and then it is no empty folder."""
    folder = PurePosixPath(arguments[arguments.index("--lake") + 1])
    assert str(folder.parent) in {mount["mountPath"] for mount in mounts}


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
    text = (FOLDER / "Dockerfile").read_text()
    # A volume at a folder that the image does not have belongs to root, and the job may not write there.
    assert "install --directory --owner=spark --group=spark /lake" in text
    assert f"--uid {USER} " in text


def test_the_manifest_starts_a_command_that_exists_on_volumes_that_it_names() -> None:
    manifest = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    pod = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]

    check_arguments(*container["args"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (USER, USER)
    check_below(container["args"], container["volumeMounts"])
    # The cores of Spark follow the limit; without one they are those of the node, and need more memory.
    assert "cpu" in container["resources"]["limits"]


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
    for pod in (spec["driver"], spec["executor"]):
        assert [mount["name"] for mount in pod["volumeMounts"]] == [volume["name"] for volume in spec["volumes"]]
        assert pod["podSecurityContext"]["fsGroup"] == USER
        check_below(spec["arguments"], pod["volumeMounts"])
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


def test_a_lake_is_made_below_a_volume_and_not_at_its_root(tmp_path: Path, dsn: str) -> None:
    """An ext4 volume has a folder of its own."""
    (tmp_path / "lost+found").mkdir()
    command = ["export", "--source", dsn, "--lake"]

    assert main([*command, str(tmp_path)]) == 1
    assert main([*command, str(tmp_path / "queue")]) == 0


def test_the_main_file_runs_as_a_script_as_spark_submit_starts_it() -> None:
    script = REPOSITORY / "django_pgqueue" / "spark" / "__main__.py"
    ran = subprocess.run(
        [sys.executable, str(script), "rollup", "--help"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd="/",
    )
    assert "--keep-minutes" in ran.stdout
