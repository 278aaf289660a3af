"""The files of examples/deploy: commands, probes and queries are those of the package, and systemd takes the unit."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command, load_command_class
from django.db import connection

from django_pgqueue import channel_set, enqueue
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "examples" / "deploy"
CLEANUP_SECONDS = 30  # docs/how-to/production.md: what a shutdown may take after --shutdown-timeout


def parsed(command: list[str]) -> Any:
    """Return the options of a worker's command line, as the worker itself reads them."""
    program, manage, name, *options = command
    assert (Path(program).name, manage, name) == ("python", "manage.py", "runqueueworker")
    return load_command_class("django_pgqueue", name).create_parser("manage.py", name).parse_args(options)


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def image_command() -> list[str]:
    [command] = re.findall(r"^CMD (\[.+\])$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    return json.loads(command)


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def test_a_container_of_the_image_stops_in_its_time_and_answers_its_probe() -> None:
    options = parsed(image_command())
    worker = documents("compose.yaml")[0]["services"]["worker"]

    assert seconds(worker["stop_grace_period"]) > options.shutdown_timeout.total_seconds() + CLEANUP_SECONDS
    assert str(options.probe_port[1]) == worker["healthcheck"]["test"][-2]


def test_compose_names_services_volumes_and_files_that_are_there() -> None:
    [compose] = documents("compose.yaml")
    services = compose["services"]

    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or (FOLDER / source).is_file()
    assert {services["web"]["environment"][name] for name in ("POOLER_HOST", "DIRECT_HOST")} <= set(services)


def test_compose_sets_the_variables_that_the_settings_read() -> None:
    names = set(re.findall(r'os\.environ\["(\w+)"\]', (FOLDER / "settings.py").read_text()))
    ast.parse((FOLDER / "settings.py").read_text())

    assert names <= set(documents("compose.yaml")[0]["services"]["worker"]["environment"])


def test_prometheus_scrapes_the_service_with_the_token_of_the_settings() -> None:
    [scrape] = documents("prometheus.yml")[0]["scrape_configs"]
    services = documents("compose.yaml")[0]["services"]

    assert scrape["authorization"]["credentials"] == services["web"]["environment"]["METRICS_TOKEN"]
    [target] = scrape["static_configs"][0]["targets"]
    assert target.partition(":")[0] in services


def test_the_lines_of_the_procfile_start_what_there_is() -> None:
    lines = dict(line.split(": ", 1) for line in (FOLDER / "Procfile").read_text().splitlines())

    assert parsed(shlex.split(lines["worker"].removeprefix("exec "))).concurrency == 8
    assert lines["release"] == "python manage.py migrate"


def unit() -> dict[str, str]:
    text = (FOLDER / "shop-worker.service").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def test_the_unit_gives_a_shutdown_its_time() -> None:
    options = parsed(shlex.split(unit()["ExecStart"]))

    assert int(unit()["TimeoutStopSec"]) > options.shutdown_timeout.total_seconds() + CLEANUP_SECONDS


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With a program and a folder that this machine has."""
    text = (FOLDER / "shop-worker.service").read_text()
    here = text.replace("/srv/shop/.venv/bin/python", sys.executable).replace("/srv/shop", str(tmp_path))
    file = tmp_path / "shop-worker.service"
    file.write_text(here)

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, timeout=60, check=False
    )

    about = [line for line in done.stderr.splitlines() if "shop-worker" in line]
    assert about == []


def manifests() -> dict[str, Any]:
    return {f"{manifest['kind']}": manifest for manifest in documents("kubernetes.yaml")}


def test_the_pod_answers_its_probes_and_stops_in_its_time() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    options = parsed(container["command"])

    assert pod["terminationGracePeriodSeconds"] > options.shutdown_timeout.total_seconds() + CLEANUP_SECONDS
    for name, path in (("startupProbe", "/readyz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[name]["httpGet"]["path"] == path
        assert options.probe_port[1] == container[name]["httpGet"]["port"]


def test_the_manifests_name_each_other() -> None:
    found = manifests()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    scaled = found["ScaledObject"]["spec"]

    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert scaled["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    assert scaled["minReplicaCount"] >= 1
    [trigger] = scaled["triggers"]
    authentication = found["TriggerAuthentication"]
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    [secret] = authentication["spec"]["secretTargetRef"]
    assert (secret["name"], secret["key"]) == (found["Secret"]["metadata"]["name"], *found["Secret"]["stringData"])


@pytest.mark.usefixtures("db")
def test_a_reader_may_ask_the_backlog_that_keda_scales_by() -> None:
    channel_set(channel="default")
    for _ in range(3):
        enqueue("mail.send")
    [trigger] = manifests()["ScaledObject"]["spec"]["triggers"]

    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE keda")
        call_command("pgqueue", "grant", "reader", "keda", stdout=StringIO())
        cursor.execute("SET LOCAL ROLE keda")
        cursor.execute(trigger["metadata"]["query"])
        assert cursor.fetchall() == [(3,)]
        cursor.execute("RESET ROLE")
