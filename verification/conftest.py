"""The fixtures of tests/conftest.py, for the tests of the harnesses."""

from __future__ import annotations

from tests.conftest import (  # noqa: F401  (fixtures)
    connect,
    django_db_modify_db_settings,
    django_db_setup,
    environment,
    pg_url,
    record_plans,
    sessions_of_a_module,
    untraced,
)
