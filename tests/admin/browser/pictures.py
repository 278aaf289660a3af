"""Take the pictures of the documentation again, in some minutes: ``python -m tests.admin.browser.pictures [NAME …]``.

A throw-away server gets the demo, its incidents, and a day of invented figures.
"""

from __future__ import annotations

import base64
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django_pgqueue.embedded import temporary_cluster
from tests.admin.browser.chromium import Chromium, Tab
from tests.support.paths import REPOSITORY

IMAGES = REPOSITORY / "docs" / "images"
MANAGE = [sys.executable, str(REPOSITORY / "testproject" / "manage.py")]
SITE = "http://127.0.0.1:8771"
ADMIN = f"{SITE}/admin/pgqueue"
FILTERED = "queue=fares"


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*MANAGE, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


class Camera:
    def __init__(self, tab: Tab) -> None:
        self.tab = tab

    def open(self, address: str, *, sidebar: bool = False) -> None:
        self.tab.open(address)
        self.tab.run(f"localStorage.setItem('django.admin.navSidebarIsOpen', '{str(sidebar).lower()}')")
        self.tab.open(address)

    def take(self, name: str, width: int, height: int, form: str = "png") -> None:
        self.tab.size(width, height)
        time.sleep(0.5)
        more = {"quality": 85} if form == "webp" else {}
        picture = self.tab.call("Page.captureScreenshot", format=form, **more)
        (IMAGES / f"{name}.{form}").write_bytes(base64.b64decode(picture["data"]))
        print(name)

    def push(self, script: str, until: str) -> None:
        self.tab.run(f"{script}.click()")
        self.tab.until(f"document.readyState === 'complete' && document.body?.textContent.includes({until!r})")

    def button(self, text: str, until: str) -> None:
        found = "[...document.querySelectorAll('.pgqueue-actions button, .submit-row input, #content button')]"
        self.push(
            f"{found}.find(one => (one.value || one.textContent).trim() === {text!r} || one.textContent === {text!r})",
            until,
        )

    def all_rows(self, action: str, until: str) -> None:
        """Choose an action for all rows that match."""
        self.tab.run("document.getElementById('action-toggle').click()")
        self.tab.run("document.querySelector('.question a')?.click()")
        self.tab.run(f"document.querySelector('select[name=action]').value = {action!r}")
        self.push("document.querySelector('button[name=index]')", until)


def wait_for(look: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.5)


def flood(camera: Camera) -> None:
    from django_pgqueue.models import Channel, Message

    with running("demotrouble", "flood"):
        wait_for(lambda: Message.objects.filter(attempts__gt=0).count() >= 4)
        time.sleep(15)
        camera.open(f"{ADMIN}/channel/?{FILTERED}")
        camera.take("incident-flood-channels", 1280, 590)
        channel = Channel.objects.get(queue="fares", name="UA")
        camera.open(f"{ADMIN}/channel/{channel.pk}/change/")
        camera.button("Pause", "Resume after")
        camera.tab.run("document.getElementById('id_reason').value = 'import of 14:20 ran twice'")
        camera.tab.run("document.getElementById('id_minutes').value = 30")
        camera.button("Pause", "Resume")
        camera.take("incident-flood-paused", 1280, 640)
        time.sleep(5)
        camera.open(f"{ADMIN}/message/?channel={channel.pk}&status__exact=1")
        camera.all_rows("cancel", "Reason")
        camera.take("incident-flood-cancel", 1280, 600)


def deploy(camera: Camera) -> None:
    from django_pgqueue.models import DeadLetter

    with running("demotrouble", "deploy"):
        wait_for(lambda: DeadLetter.objects.count() >= 1200)
        time.sleep(20)
        camera.open(f"{ADMIN}/dashboard/?queue=fares")
        camera.take("incident-deploy-dashboard", 1280, 760)
        camera.open(f"{ADMIN}/deadletter/?redriven=no&{FILTERED}")
        camera.take("incident-deploy-dead", 1280, 600)
        camera.all_rows("redrive", "Rate")
        camera.tab.run("document.getElementById('id_rate').value = '10/s'")
        camera.take("incident-deploy-redrive", 1280, 640)
        camera.open(f"{ADMIN}/deadletter/{DeadLetter.objects.latest('pk').pk}/change/")
        camera.tab.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        camera.take("incident-deploy-letter", 1280, 600)


def host(camera: Camera) -> None:
    from django_pgqueue.models import Message

    with running("demotrouble", "host") as process:
        process.wait(120)
    with running("demotrouble", "work"):
        time.sleep(25)
        camera.open(f"{ADMIN}/worker/")
        camera.take("incident-host-workers", 1280, 420)
        leased = Message.objects.filter(status=Message.Status.LEASED).earliest("pk")
        camera.open(f"{ADMIN}/message/{leased.pk}/change/")
        camera.take("incident-host-message", 1280, 620)
        camera.open(f"{ADMIN}/message/?status__exact=2")
        camera.all_rows("release_leases", "may run twice")
        camera.take("incident-host-release", 1280, 500)


def dashboard(camera: Camera) -> None:
    from django_pgqueue.models import Channel
    from tests.admin.browser import demo_tenant

    channel = demo_tenant.fill_tenant()
    fill_day()
    camera.open(f"{ADMIN}/dashboard/", sidebar=True)
    camera.take("dashboard-light", 1400, 900, "webp")
    camera.tab.scheme("dark")
    camera.open(f"{ADMIN}/dashboard/?order=limits", sidebar=True)
    camera.tab.size(1400, 900)
    camera.tab.run("document.getElementById('pgqueue-channels').scrollIntoView()")
    camera.take("dashboard-dark", 1400, 900, "webp")
    camera.tab.scheme("light")
    assert Channel.objects.filter(pk=channel.pk).exists()
    camera.open(f"{ADMIN}/channel/{channel.pk}/tenant/", sidebar=True)
    camera.take("tenant-page", 1280, 1380, "webp")


def fill_day() -> None:
    """Add queues with a day of figures, tenants, workers, and a handler that fails."""
    from django.utils import timezone

    from django_pgqueue import NewMessage, channel_set, dead_letter, dequeue, enqueue_many, measure
    from django_pgqueue.models import Activity, Worker
    from tests.admin.browser.demo_tenant import bucket

    chance, now = random.Random(9), timezone.now().replace(second=0, microsecond=0)
    names = [f"{word}-{n:04}" for n, word in enumerate(["acme", "globex", "initech", "umbrella", "hooli", "stark"], 17)]
    handlers = {"orders": "shop.charge", "mail": "mail.send", "reports": "crm.push"}
    for queue, handler in handlers.items():
        for name in names:
            channel_set(channel=name, queue=queue, max_concurrency=chance.choice([None, 5, 10]))
            enqueue_many(
                NewMessage(handler=handler, payload={"n": n}, queue=queue, channel=name)
                for n in range(chance.randint(5, 90))
            )
        Worker.objects.create(
            name=f"web-{len(queue)}.example.org:41:7f{len(queue)}", hostname="web", pid=41, queues=[queue],
            concurrency=8, version="1",
        )  # fmt: skip
        for minutes, count, of in (
            (1, 60, {}),
            (10, 144, {}),
            (10, 12, {"channel": names[0]}),
            (10, 12, {"handler": handler}),
        ):
            first = now - timedelta(minutes=now.minute % minutes)
            for place in range(count):
                at = first - place * timedelta(minutes=minutes)
                Activity.objects.create(queue=queue, minutes=minutes, bucket_at=at, **of, **bucket(chance, at, minutes))
    error = {"type": "ConnectionError", "message": "crm.example did not answer in 10 s"}
    enqueue_many(
        NewMessage(handler="crm.push", payload={"n": n}, queue="reports", channel=names[n % 6], priority=5)
        for n in range(200)
    )
    while taken := [one for one in dequeue("reports", limit=100, worker="w") if one.priority]:
        dead_letter(taken, reason="failed", details=error)
    for queue in handlers:
        dequeue(queue, limit=12, worker=f"web-{len(queue)}.example.org:41:7f{len(queue)}")
    measure(timedelta(0))


def main(names: list[str]) -> None:
    with temporary_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        # A database for each, so that none shows what another one has left.
        for take in (flood, deploy, host, dashboard):
            if names and take.__name__ not in names:
                continue
            code = f"from tests.admin.browser import pictures; pictures.in_database({take.__name__!r}, {folder!r})"
            cluster.ensure_database(take.__name__)
            given = {
                **os.environ,
                "DATABASE_URL": cluster.url(take.__name__),
                "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/testproject",
                "DJANGO_SETTINGS_MODULE": "testproject.settings",
            }
            subprocess.run([sys.executable, "-c", code], check=True, env=given, cwd=REPOSITORY)


def in_database(name: str, folder: str) -> None:
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from tests.admin.browser.conftest import wait_for_site

    call_command("migrate", verbosity=0)
    client = Client()
    client.force_login(User.objects.create_superuser("admin"))
    browser = Chromium(Path(folder) / name)
    try:
        with running("runserver", SITE.removeprefix("http://"), "--noreload", "--skip-checks"):
            wait_for_site(f"{SITE}/static/django_pgqueue/dashboard.css", Path(os.devnull))
            tab = browser.tab()
            tab.cookie(SITE, "sessionid", client.cookies["sessionid"].value)
            tab.size(1280, 900)
            globals()[name](Camera(tab))
    finally:
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
