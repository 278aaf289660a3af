"""Whether the database is at the state that this release's migrations make."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def is_migrated(database: str) -> bool:
    """All of our migrations are applied, and none that only a newer release knows."""
    name, _ = MigrationLoader.migrations_module("pgqueue")
    if name is None:
        return False
    known = {module.name for module in pkgutil.iter_modules(import_module(name).__path__) if module.name[0] not in "_~"}
    applied = {
        migration
        for app, migration in MigrationRecorder(connections[database]).applied_migrations()
        if app == "pgqueue"
    }
    return known == applied
