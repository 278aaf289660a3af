from django.db import migrations

from django_pgqueue.sql.operations import InstallTables


class Migration(migrations.Migration):
    """Not atomic: the index is built beside the queue at work."""

    atomic = False

    dependencies = [
        ('pgqueue_pipeline', '0001_initial'),
    ]

    operations = [
        InstallTables("dead_letter_xid", 1, drop=["INDEX CONCURRENTLY pgqueue_dead_letter_xid"]),
    ]
