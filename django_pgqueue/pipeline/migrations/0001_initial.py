from django.db import migrations, models

import django_pgqueue.models.expressions
from django_pgqueue.sql.operations import InstallFunction, InstallTables


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('pgqueue', '0003_triggers'),
    ]

    operations = [
        migrations.CreateModel(
            name='Lake',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('path', models.TextField()),
                ('exported_xid', models.BigIntegerField()),
                ('exported_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp())),
                ('rows', models.JSONField(db_default={}, default=dict)),
                ('lost', models.JSONField(db_default={}, default=dict)),
            ],
            options={
                'db_table': 'pgqueue_lake',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='QueueMetric',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('grain', models.CharField(choices=[('minute', 'minute'), ('hour', 'hour'), ('day', 'day')], max_length=10)),
                ('bucket_at', models.DateTimeField()),
                ('level', models.CharField(choices=[('queue', 'queue'), ('channel', 'channel'), ('handler', 'handler')], max_length=10)),
                ('queue', models.CharField(db_collation='C', max_length=100)),
                ('channel', models.CharField(db_collation='C', max_length=200, null=True)),
                ('handler', models.CharField(db_collation='C', max_length=200, null=True)),
                ('enqueued', models.BigIntegerField()),
                ('completed', models.BigIntegerField()),
                ('popped', models.BigIntegerField()),
                ('purged', models.BigIntegerField()),
                ('dropped', models.BigIntegerField()),
                ('cancelled', models.BigIntegerField()),
                ('dead', models.BigIntegerField()),
                ('attempts', models.BigIntegerField()),
                ('retries', models.BigIntegerField()),
                ('wait_p50_seconds', models.FloatField(null=True)),
                ('wait_p95_seconds', models.FloatField(null=True)),
                ('wait_p99_seconds', models.FloatField(null=True)),
                ('run_p50_seconds', models.FloatField(null=True)),
                ('run_p95_seconds', models.FloatField(null=True)),
                ('run_p99_seconds', models.FloatField(null=True)),
                ('total_p50_seconds', models.FloatField(null=True)),
                ('total_p95_seconds', models.FloatField(null=True)),
                ('total_p99_seconds', models.FloatField(null=True)),
                ('total_max_seconds', models.FloatField(null=True)),
                ('run_seconds', models.FloatField()),
                ('capacity_share', models.FloatField(null=True)),
                ('retry_seconds', models.FloatField()),
                ('sla_seconds', models.FloatField(null=True)),
                ('sla_breaches', models.BigIntegerField()),
                ('retries_by_reason', models.JSONField(default=dict)),
                ('dead_by_reason', models.JSONField(default=dict)),
            ],
            options={
                'db_table': 'pgqueue_queue_metric',
            },
        ),
        migrations.AddIndex(
            model_name='queuemetric',
            index=models.Index(condition=models.Q(('level', 'queue')), fields=['grain', 'bucket_at'], name='pgqueue_queue_metric_queues'),
        ),
        InstallTables("lake", 1, drop=[]),
        InstallTables("datasource", 1, drop=["TABLE pgqueue_ingest, pgqueue_ingest_stage"]),
        # Going back, the stages that a killed bulk enqueue has left.
        migrations.RunSQL(
            migrations.RunSQL.noop,
            "DO $$ DECLARE v_stage bigint; BEGIN"
            " FOR v_stage IN SELECT id FROM pgqueue_ingest_stage"
            " LOOP EXECUTE format('DROP TABLE IF EXISTS pgqueue_stage_%s', v_stage); END LOOP; END $$",
        ),
        InstallFunction("pgqueue_erase_pipeline", 1),
        InstallFunction("pgqueue_exported_xid", 1),
        InstallFunction("pgqueue_ingest", 1),
        InstallFunction("pgqueue_ingest_channels", 1),
        InstallFunction("pgqueue_ingest_clean", 1),
        InstallFunction("pgqueue_ingest_insert", 1),
        InstallFunction("pgqueue_ingest_open", 1),
        InstallFunction("pgqueue_is_exported", 1),
        InstallFunction("pgqueue_lake_exported", 1),
        InstallFunction("pgqueue_record_lost", 1),
    ]
