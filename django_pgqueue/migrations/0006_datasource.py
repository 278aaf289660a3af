from django.db import migrations

from django_pgqueue.sql.operations import InstallFunction, InstallTables


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0005_lake"),
    ]

    operations = [
        InstallTables(
            "datasource",
            1,
            drop=[
                "TABLE pgqueue_stream_claim",
                "TABLE pgqueue_stream",
                "TABLE pgqueue_ingest_stage",
                "TABLE pgqueue_ingest",
            ],
        ),
        InstallFunction("pgqueue_ingest", 1),
        InstallFunction("pgqueue_ingest_channels", 1),
        InstallFunction("pgqueue_ingest_clean", 1),
        InstallFunction("pgqueue_ingest_insert", 1),
        InstallFunction("pgqueue_ingest_open", 1),
        InstallFunction("pgqueue_stream_claim", 1),
        InstallFunction("pgqueue_stream_extend", 1),
        InstallFunction("pgqueue_stream_lost", 1),
        InstallFunction("pgqueue_stream_open", 1),
        InstallFunction("pgqueue_stream_parts", 1),
        InstallFunction("pgqueue_stream_release", 1),
        InstallFunction("pgqueue_stream_settle", 1),
        InstallFunction("pgqueue_match_payload", 1),
        InstallFunction("pgqueue_find_matching", 1),
        InstallFunction("pgqueue_dequeue_matching", 1),
    ]
