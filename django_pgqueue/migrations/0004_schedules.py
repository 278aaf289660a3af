import datetime
import django.core.validators
import django_pgqueue.models.expressions
import django_pgqueue.models.schedule
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

from django_pgqueue.sql.operations import InstallFunction, InstallTables, TakeTriggerFunctionsBack


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0003_triggers'),
    ]

    operations = [
        migrations.CreateModel(
            name='ScheduleTick',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('schedule', models.CharField(max_length=150)),
                ('tick_at', models.DateTimeField()),
                ('fired_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp())),
                ('by_hand', models.BooleanField(db_default=False, default=False)),
                ('outcome', models.CharField(choices=[('created', 'enqueued'), ('duplicate', 'the message of an earlier tick is live'), ('dropped', 'dropped: the channel is full'), ('refused', 'refused')], max_length=10)),
                ('message_id', models.BigIntegerField(null=True)),
                ('error', models.TextField(db_default='', default='')),
            ],
            options={
                'db_table': 'pgqueue_schedule_tick',
            },
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=150, unique=True)),
                ('handler', models.CharField(max_length=200)),
                ('queue', models.CharField(db_default='default', default='default', max_length=100)),
                ('channel', models.CharField(db_default='default', default='default', max_length=200)),
                ('payload', models.JSONField(blank=True, db_default={}, default=dict, null=True)),
                ('headers', models.JSONField(blank=True, help_text="The schedule's name and the tick are added: schedule, tick_at.", null=True)),
                ('priority', models.SmallIntegerField(db_default=0, default=0, help_text='Higher first, within the channel.')),
                ('cron', models.CharField(blank=True, help_text='Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly.', max_length=200, null=True)),
                ('every', models.DurationField(blank=True, help_text='An interval in place of a cron expression, at least a second.', null=True)),
                ('time_zone', models.CharField(db_default='UTC', default=django_pgqueue.models.schedule.project_time_zone, help_text='Whose wall clock cron means.', max_length=100)),
                ('enabled', models.BooleanField(db_default=True, default=True)),
                ('missed', models.CharField(choices=[('skip', 'skip them'), ('once', 'make up for the newest'), ('all', 'make up for all, up to the limit')], db_default='skip', default='skip', help_text='What happens to ticks that no worker was there for.', max_length=10)),
                ('missed_limit', models.PositiveIntegerField(db_default=100, default=100, help_text='The most ticks that are made up for.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)])),
                ('grace', models.DurationField(db_default=datetime.timedelta(seconds=60), default=datetime.timedelta(seconds=60), help_text='A tick that is no later than this is not missed: it fires.')),
                ('overlap', models.BooleanField(db_default=True, default=True, help_text='Off: a tick makes no message while the message of an earlier one is live.')),
                ('next_fire_at', models.DateTimeField(editable=False, null=True)),
                ('last_fired_at', models.DateTimeField(editable=False, null=True)),
                ('last_error', models.TextField(db_default='', default='', editable=False)),
                ('declared_in', models.CharField(db_default='', default='', editable=False, help_text='The module that declares it.', max_length=200)),
                ('removed_at', models.DateTimeField(editable=False, help_text='Since then code does not declare it any more; it does not fire.', null=True)),
                ('created_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), editable=False)),
            ],
            options={
                'db_table': 'pgqueue_schedule',
                'ordering': ['name'],
                'permissions': [('run_schedule', 'Can run schedules now')],
                'indexes': [models.Index(condition=models.Q(('enabled', True), ('removed_at', None)), fields=['next_fire_at'], name='pgqueue_schedule_due')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('handler', ''), _negated=True), models.Q(('queue', ''), _negated=True), models.Q(('channel', ''), _negated=True)), name='pgqueue_schedule_named'), models.CheckConstraint(condition=models.Q(models.Q(('cron__isnull', False), ('every', None)), models.Q(('cron', None), ('every__isnull', False)), _connector='OR'), name='pgqueue_schedule_when'), models.CheckConstraint(condition=models.Q(('every', None), ('every__range', (datetime.timedelta(seconds=1), datetime.timedelta(days=3660))), _connector='OR'), name='pgqueue_schedule_every'), models.CheckConstraint(condition=models.Q(('missed__in', ['skip', 'once', 'all'])), name='pgqueue_schedule_missed'), models.CheckConstraint(condition=models.Q(('missed_limit__range', (1, 1000))), name='pgqueue_schedule_missed_limit'), models.CheckConstraint(condition=models.Q(('grace__gte', datetime.timedelta(0))), name='pgqueue_schedule_grace')],
            },
        ),
        migrations.AddIndex(
            model_name='scheduletick',
            index=models.Index(fields=['fired_at'], name='pgqueue_schedule_tick_fired'),
        ),
        migrations.AddConstraint(
            model_name='scheduletick',
            constraint=models.UniqueConstraint(fields=('schedule', 'tick_at'), name='pgqueue_schedule_tick_once'),
        ),
        InstallTables("schedule", 1, drop=[]),
        InstallFunction("pgqueue_schedule_changed", 1),
        InstallFunction("pgqueue_schedule_enqueue", 1),
        InstallFunction("pgqueue_schedule_fire", 1),
        InstallFunction("pgqueue_schedule_prune", 1),
        InstallFunction("pgqueue_schedule_run", 1),
        TakeTriggerFunctionsBack("pgtrigger_schedule_changed_870d1"),
        pgtrigger.migrations.AddTrigger(
            model_name='schedule',
            trigger=pgtrigger.compiler.Trigger(name='schedule_changed', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."cron" IS DISTINCT FROM (NEW."cron") OR OLD."enabled" IS DISTINCT FROM (NEW."enabled") OR OLD."every" IS DISTINCT FROM (NEW."every") OR OLD."time_zone" IS DISTINCT FROM (NEW."time_zone"))', execute='pgqueue_schedule_changed()', func='RETURN NULL;', hash='62463766f111e5dec2b434e088ee712f70892f1e', operation='UPDATE OF "cron", "every", "time_zone", "enabled"', pgid='pgtrigger_schedule_changed_870d1', table='pgqueue_schedule', when='BEFORE')),
        ),
    ]
