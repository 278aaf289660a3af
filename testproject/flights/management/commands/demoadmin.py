"""The admin of the demo in a browser of this machine."""

from __future__ import annotations

import os
import secrets
from argparse import ArgumentParser
from io import StringIO
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand

ADDRESS = "127.0.0.1"
NAME = "admin"


class Command(BaseCommand):
    help = f"Serves the admin on http://{ADDRESS}:PORT/admin/, and makes the user who may see it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="(default: 8000)")

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        password = refresh_user()
        self.stdout.write(f"http://{ADDRESS}:{port}/admin/   user {NAME}, password {password}   (Ctrl-C ends it)")
        self.stdout.flush()
        # Its greeting says the same again; requests and errors go to stderr.
        call_command("runserver", f"{ADDRESS}:{port}", use_reloader=False, stdout=StringIO())


def refresh_user() -> str:
    """A superuser with a password to print: a fixed one on the embedded server, which no other machine can reach."""
    password = secrets.token_urlsafe(9) if os.environ.get("DATABASE_URL") else NAME
    user, _ = User.objects.get_or_create(username=NAME)
    user.is_staff = user.is_superuser = user.is_active = True
    user.set_password(password)
    user.save()
    return password
