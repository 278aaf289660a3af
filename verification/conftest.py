"""The fixtures of tests/conftest.py, for the tests of the harnesses."""

from __future__ import annotations

from tests.support.fixtures import connect, environment, pg_url, record_plans, untraced  # noqa: F401  (fixtures)
from tests.support.server import django_db_modify_db_settings  # noqa: F401  (a fixture)
from tests.support.session_guard import django_db_setup, sessions_of_a_module  # noqa: F401  (fixtures)
