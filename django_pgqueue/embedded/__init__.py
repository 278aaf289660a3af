"""A private PostgreSQL server for development, the demo and tests. Imports no Django and nothing else of this package.

DATABASES = databases(BASE_DIR / ".pgqueue")          # settings.py: DATABASE_URL, or else the embedded server

with temporary_cluster() as cluster:                  # tests: gone afterwards
    psycopg.connect(cluster.url("postgres"))
"""

from .binaries import Binaries, find_all, find_binaries
from .cluster import Cluster, Status
from .errors import EmbeddedError
from .settings import databases, parse_url
from .temporary import temporary_cluster

__all__ = [
    "Binaries",
    "Cluster",
    "EmbeddedError",
    "Status",
    "databases",
    "find_all",
    "find_binaries",
    "parse_url",
    "temporary_cluster",
]
