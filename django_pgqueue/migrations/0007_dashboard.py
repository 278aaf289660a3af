from django.db import migrations, models

import django_pgqueue.models.counts
from django_pgqueue.sql.operations import InstallFunction, InstallTables


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0006_datasource'),
    ]

    operations = [
        migrations.CreateModel(
            name='Backlog',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queue', models.CharField(db_collation='C', max_length=100)),
                ('channel', models.CharField(db_collation='C', max_length=200, null=True)),
                ('ready', models.BigIntegerField()),
                ('leased', models.BigIntegerField()),
                ('scheduled', models.BigIntegerField()),
                ('dead', models.BigIntegerField()),
                ('oldest_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_backlog',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Activity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queue', models.CharField(db_collation='C', max_length=100)),
                ('channel', models.CharField(db_collation='C', max_length=200, null=True)),
                ('minutes', models.SmallIntegerField()),
                ('bucket_at', models.DateTimeField()),
                ('completed', models.BigIntegerField(help_text='Completed or popped.')),
                ('cancelled', models.BigIntegerField(help_text='Cancelled, purged or dropped.')),
                ('dead', models.BigIntegerField(help_text='Dead-lettered.')),
                ('retries', models.BigIntegerField(help_text='Attempts before the last one, of all these messages.')),
                ('waits', django_pgqueue.models.counts.Counts()),
                ('runs', django_pgqueue.models.counts.Counts()),
            ],
            options={
                'db_table': 'pgqueue_activity',
                'default_permissions': (),
                'indexes': [models.Index(fields=['minutes', 'bucket_at'], name='pgqueue_activity_bucket'), models.Index(condition=models.Q(('channel', None)), fields=['minutes', 'bucket_at'], name='pgqueue_activity_queues'), models.Index(condition=models.Q(('channel__isnull', False), ('dead__gt', 0)), fields=['minutes', 'bucket_at'], name='pgqueue_activity_dead')],
            },
        ),
        migrations.CreateModel(
            name='Dashboard',
            fields=[
            ],
            options={
                'verbose_name': 'dashboard',
                'verbose_name_plural': ' Dashboard',
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('pgqueue.activity',),
        ),
        InstallTables("activity", 1, drop=["TABLE pgqueue_measurement"]),
        InstallFunction("pgqueue_histogram", 1),
        InstallFunction("pgqueue_histogram_add", 1),
        InstallFunction("pgqueue_histogram_percentile", 1),
        InstallFunction("pgqueue_measure", 1),
        InstallFunction("pgqueue_measure_backlog", 1),
        InstallFunction("pgqueue_measure_settled", 1),
        InstallFunction("pgqueue_measure_since", 1),
        InstallFunction("pgqueue_measure_tidy", 1),
    ]
