"""Run a private PostgreSQL server for development, the demo and tests, without Django and other parts of this package.

DATABASES = databases(BASE_DIR / ".pgqueue")          # settings.py: DATABASE_URL, or else the embedded server

with temporary_cluster() as cluster:                  # tests: gone afterwards
    psycopg.connect(cluster.url("postgres"))
"""

from django_pgqueue.embedded.binaries import Binaries, EmbeddedError, find_all, find_binaries
from django_pgqueue.embedded.cluster import Cluster
from django_pgqueue.embedded.settings import databases, parse_url
from django_pgqueue.embedded.temporary import temporary_cluster

__all__ = [
    "Binaries",
    "Cluster",
    "EmbeddedError",
    "databases",
    "find_all",
    "find_binaries",
    "parse_url",
    "temporary_cluster",
]
