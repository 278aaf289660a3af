import datetime
import django.core.validators
import django.db.models.deletion
import django_pgqueue.models.counts
import django_pgqueue.models.expressions
import django_pgqueue.models.schedule
from django.db import migrations, models

from django_pgqueue.sql.operations import InstallTables


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='ArchivedMessage',
            fields=[
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('queue', models.CharField(max_length=100)),
                ('channel', models.CharField(max_length=200)),
                ('handler', models.CharField(max_length=200)),
                ('payload', models.JSONField(null=True)),
                ('body', models.BinaryField(null=True)),
                ('headers', models.JSONField(null=True)),
                ('priority', models.SmallIntegerField()),
                ('attempts', models.IntegerField()),
                ('max_attempts', models.IntegerField()),
                ('created_at', models.DateTimeField()),
                ('dequeue_at', models.DateTimeField()),
                ('leased_at', models.DateTimeField(null=True)),
                ('lease_token', models.UUIDField(null=True)),
                ('archived_at', models.DateTimeField()),
                ('outcome', models.CharField(choices=[('completed', 'completed'), ('popped', 'popped'), ('purged', 'purged'), ('cancelled', 'cancelled'), ('dropped', 'dropped by a full channel')], max_length=20)),
                ('result', models.JSONField(null=True)),
                ('state', models.JSONField(null=True)),
                ('errors', models.JSONField(null=True)),
                ('dedupe_key', models.CharField(max_length=200, null=True)),
                ('worker', models.CharField(max_length=200, null=True)),
                ('redriven_from', models.BigIntegerField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_archived_message',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queue', models.CharField(db_collation='C', db_default='default', default='default', help_text='The queue, whose workers serve the channel.', max_length=100)),
                ('name', models.CharField(db_collation='C', max_length=200)),
                ('max_concurrency', models.PositiveIntegerField(blank=True, help_text='Messages that may be leased at the same time. Empty: no limit. 1: strict first in, first out.', null=True)),
                ('max_size', models.PositiveIntegerField(blank=True, help_text='Live messages that the channel may hold. Empty: no limit.', null=True)),
                ('full_policy', models.CharField(choices=[('error', 'refuse with an error'), ('drop', 'drop it, and report that'), ('drop_oldest', 'drop the oldest that wait'), ('replace', 'drop all that wait: it replaces them')], db_default='error', default='error', help_text='How the channel treats a message that does not fit.', max_length=20)),
                ('release_interval', models.DurationField(blank=True, help_text='At most one delivery in this time, retries included. Empty: no limit.', null=True)),
                ('release_burst', models.PositiveIntegerField(db_default=1, default=1, help_text='Deliveries that may come at once after a quiet time.')),
                ('weight', models.PositiveIntegerField(db_default=1, default=1, help_text='Messages per turn in the round robin.')),
                ('archive', models.CharField(blank=True, choices=[('full', 'everything'), ('outcome', 'the outcome, no payload'), ('none', 'nothing')], help_text="The content that the archive keeps of its messages. Empty: the queue's setting.", max_length=10, null=True)),
                ('context', models.JSONField(blank=True, db_default={}, default=dict, help_text='JSON that every message of the channel carries.')),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.TextField(blank=True, db_default='', default='')),
                ('paused_until', models.DateTimeField(blank=True, help_text='The time at which the sweep ends the pause.', null=True)),
                ('released_at', models.DateTimeField(blank=True, help_text='Since then it takes no new messages; it is removed when it is empty.', null=True)),
                ('created_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), editable=False)),
                ('changed_at', models.DateTimeField(editable=False, help_text='The time of the last change of its limits.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_channel',
                'ordering': ['queue', 'name'],
                'permissions': [('pause_channel', 'Can pause and resume channels'), ('purge_channel', 'Can purge channels'), ('erase_channel', 'Can erase channels with all of their data')],
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
            },
        ),
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
            name='DeadLetter',
            fields=[
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('queue', models.CharField(max_length=100)),
                ('channel', models.CharField(max_length=200)),
                ('handler', models.CharField(max_length=200)),
                ('payload', models.JSONField()),
                ('body', models.BinaryField(null=True)),
                ('headers', models.JSONField(null=True)),
                ('priority', models.SmallIntegerField()),
                ('attempts', models.IntegerField()),
                ('max_attempts', models.IntegerField()),
                ('backoff', models.DurationField(null=True)),
                ('backoff_factor', models.FloatField(null=True)),
                ('backoff_longest', models.DurationField(null=True)),
                ('created_at', models.DateTimeField()),
                ('dequeue_at', models.DateTimeField()),
                ('leased_at', models.DateTimeField(null=True)),
                ('lease_token', models.UUIDField(editable=False, null=True)),
                ('dead_at', models.DateTimeField()),
                ('reason', models.CharField(help_text="rejected, unreadable, undecodable, failed, poison, timed_out, stopped, transaction_ended, discarded, or the handler's own word", max_length=200)),
                ('details', models.JSONField(null=True)),
                ('state', models.JSONField(null=True)),
                ('errors', models.JSONField(null=True)),
                ('dedupe_key', models.CharField(max_length=200, null=True)),
                ('worker', models.CharField(max_length=200, null=True)),
                ('redriven_from', models.BigIntegerField(null=True)),
                ('redriven_at', models.DateTimeField(null=True)),
                ('redriven_to', models.BigIntegerField(null=True)),
                ('limits', django_pgqueue.models.counts.Ids(null=True)),
                ('cost', models.PositiveIntegerField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_dead_letter',
                'permissions': [('redrive_deadletter', 'Can redrive dead letters'), ('edit_deadletter', 'Can redrive dead letters with another payload'), ('discard_deadletter', 'Can discard dead letters')],
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('handler', models.CharField(max_length=200)),
                ('payload', models.JSONField(blank=True, default=dict)),
                ('body', models.BinaryField(blank=True, null=True)),
                ('headers', models.JSONField(blank=True, null=True)),
                ('priority', models.SmallIntegerField(db_default=0, default=0, help_text='Higher first, within the channel.')),
                ('dequeue_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), help_text='The time before which it is not delivered.')),
                ('status', models.SmallIntegerField(choices=[(1, 'ready'), (2, 'leased'), (3, 'scheduled')], db_default=1, default=1, editable=False)),
                ('attempts', models.IntegerField(db_default=0, default=0, editable=False)),
                ('max_attempts', models.IntegerField(db_default=5, default=5)),
                ('backoff', models.DurationField(blank=True, help_text='Pause after the first failure. Empty: one second.', null=True)),
                ('backoff_factor', models.FloatField(blank=True, help_text='How the pause grows, with jitter. Empty: 2. 1: constant, without jitter.', null=True)),
                ('backoff_longest', models.DurationField(blank=True, help_text='The longest pause. Empty: one hour.', null=True)),
                ('dedupe_key', models.CharField(blank=True, max_length=200, null=True)),
                ('limits', django_pgqueue.models.counts.Ids(editable=False, help_text='The ids of its shared limits.', null=True)),
                ('cost', models.PositiveIntegerField(blank=True, help_text='The tokens of rates, and the part of max_cost, that it takes. Empty: 1.', null=True)),
                ('waits_for', models.BigIntegerField(editable=False, help_text='The id of the shared limit that it waits for.', null=True)),
                ('promoted_for', models.BigIntegerField(editable=False, help_text='The id of the shared limit that had room when it was made ready.', null=True)),
                ('state', models.JSONField(blank=True, help_text='JSON that the last deferral saved.', null=True)),
                ('errors', models.JSONField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), editable=False)),
                ('leased_at', models.DateTimeField(editable=False, null=True)),
                ('last_leased_at', models.DateTimeField(editable=False, null=True)),
                ('lease_expires_at', models.DateTimeField(editable=False, null=True)),
                ('lease_token', models.UUIDField(editable=False, null=True)),
                ('worker', models.CharField(editable=False, max_length=200, null=True)),
                ('redriven_from', models.BigIntegerField(editable=False, null=True)),
                ('settled_token', models.UUIDField(editable=False, null=True)),
                ('cancelled_at', models.DateTimeField(editable=False, null=True)),
                ('cancel_reason', models.TextField(editable=False, null=True)),
            ],
            options={
                'db_table': 'pgqueue_message',
                'permissions': [('cancel_message', 'Can cancel messages'), ('reschedule_message', 'Can reschedule messages'), ('discard_message', 'Can discard messages'), ('edit_message', 'Can edit the payload of messages'), ('release_message', 'Can release leases of messages'), ('view_decrypted_payload', 'Can see what a codec has encrypted')],
            },
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('name', models.CharField(db_collation='C', max_length=100, primary_key=True, serialize=False)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.TextField(blank=True, db_default='', default='')),
                ('paused_until', models.DateTimeField(blank=True, help_text='The time at which the sweep ends the pause.', null=True)),
                ('archive', models.CharField(choices=[('full', 'everything'), ('outcome', 'the outcome, no payload'), ('none', 'nothing')], db_default='full', default='full', help_text='The content that the archive keeps of its messages, unless the channel or the call says otherwise.', max_length=10)),
                ('retention', models.DurationField(blank=True, help_text='How long the archive keeps its messages, counted in whole days. Empty: as long as the setting ARCHIVE_RETENTION says.', null=True)),
                ('dead_letter_retention', models.DurationField(blank=True, help_text='How long its dead letters are kept. Empty: as long as the setting DEAD_LETTER_RETENTION says.', null=True)),
                ('events', models.BooleanField(db_default=False, default=False, help_text='Send a NOTIFY on pgqueue_events for each change of its messages.')),
            ],
            options={
                'db_table': 'pgqueue_queue',
                'ordering': ['name'],
                'permissions': [('pause_queue', 'Can pause and resume queues'), ('purge_queue', 'Can purge queues'), ('drop_queue', 'Can drop queues')],
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
                ('time_zone', models.CharField(db_default='UTC', default=django_pgqueue.models.schedule.project_time_zone, help_text='The time zone whose wall clock the cron expression follows.', max_length=100)),
                ('enabled', models.BooleanField(db_default=True, default=True)),
                ('missed', models.CharField(choices=[('skip', 'skip them'), ('once', 'fire the newest'), ('all', 'fire all, up to the limit')], db_default='skip', default='skip', help_text='How ticks are treated at which no worker ran.', max_length=10)),
                ('missed_limit', models.PositiveIntegerField(db_default=100, default=100, help_text='The most missed ticks that fire later.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)])),
                ('grace', models.DurationField(db_default=datetime.timedelta(seconds=60), default=datetime.timedelta(seconds=60), help_text='A tick that is late by no more than this is not missed: it fires.')),
                ('overlap', models.BooleanField(db_default=True, default=True, help_text='Off: a tick makes no message while the message of an earlier one is live.')),
                ('next_fire_at', models.DateTimeField(editable=False, null=True)),
                ('last_fired_at', models.DateTimeField(editable=False, null=True)),
                ('last_error', models.TextField(db_default='', default='', editable=False)),
                ('declared_in', models.CharField(db_default='', default='', editable=False, help_text='The module that declares it.', max_length=200)),
                ('removed_at', models.DateTimeField(editable=False, help_text='Since then the code no longer declares it; it does not fire.', null=True)),
                ('created_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), editable=False)),
            ],
            options={
                'db_table': 'pgqueue_schedule',
                'ordering': ['name'],
                'permissions': [('run_schedule', 'Can run schedules now')],
            },
        ),
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
            name='Worker',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('hostname', models.CharField(max_length=200)),
                ('pid', models.IntegerField()),
                ('queues', models.JSONField()),
                ('handlers', models.JSONField(null=True)),
                ('concurrency', models.IntegerField()),
                ('version', models.CharField(max_length=50)),
                ('started_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp())),
                ('heartbeat_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp())),
                ('state', models.CharField(choices=[('starting', 'starting'), ('running', 'running'), ('stopping', 'stopping')], db_default='running', default='running', max_length=10)),
                ('supervisor', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('running', models.JSONField(db_default=[], default=list)),
                ('totals', models.JSONField(db_default={}, default=dict)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('paused_at', models.DateTimeField(null=True)),
                ('pause_reason', models.TextField(blank=True, db_default='', default='')),
            ],
            options={
                'db_table': 'pgqueue_worker',
                'ordering': ['name'],
                'permissions': [('pause_worker', 'Can pause and resume workers')],
            },
        ),
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('channel', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='lane', serialize=False, to='pgqueue.channel')),
                ('seq', models.BigIntegerField()),
                ('queue', models.CharField(max_length=100)),
                ('parked_until', models.DateTimeField(null=True)),
                ('served', models.IntegerField()),
            ],
            options={
                'db_table': 'pgqueue_lane',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='SharedLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(db_collation='C', max_length=200, unique=True)),
                ('max_concurrency', models.PositiveIntegerField(blank=True, help_text='Messages that may be leased at the same time. Empty: no limit.', null=True)),
                ('max_cost', models.PositiveIntegerField(blank=True, help_text='The cost of all messages that are leased at the same time. Empty: no limit.', null=True)),
                ('release_interval', models.DurationField(blank=True, help_text='One token comes in this time; a message takes its cost. Empty: no limit.', null=True)),
                ('release_burst', models.PositiveIntegerField(db_default=1, default=1, help_text='Tokens that may be saved up, so that many come at once.')),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.TextField(blank=True, db_default='', default='')),
                ('paused_until', models.DateTimeField(blank=True, help_text='The time at which the sweep ends the pause.', null=True)),
                ('created_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), editable=False)),
            ],
            options={
                'verbose_name': 'shared limit',
                'verbose_name_plural': 'shared limits',
                'db_table': 'pgqueue_limit',
                'ordering': ['name'],
                'permissions': [('pause_sharedlimit', 'Can pause and resume shared limits')],
            },
        ),
        migrations.AddConstraint(
            model_name='sharedlimit',
            constraint=models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='pgqueue_limit_named'),
        ),
        migrations.AddConstraint(
            model_name='sharedlimit',
            constraint=models.CheckConstraint(condition=models.Q(('max_concurrency', None), ('max_concurrency__gte', 1), _connector='OR'), name='pgqueue_limit_max_concurrency'),
        ),
        migrations.AddConstraint(
            model_name='sharedlimit',
            constraint=models.CheckConstraint(condition=models.Q(('max_cost', None), ('max_cost__gte', 1), _connector='OR'), name='pgqueue_limit_max_cost'),
        ),
        migrations.AddConstraint(
            model_name='sharedlimit',
            constraint=models.CheckConstraint(condition=models.Q(('release_interval', None), ('release_interval__gt', '00:00:00'), _connector='OR'), name='pgqueue_limit_release_interval'),
        ),
        migrations.AddConstraint(
            model_name='sharedlimit',
            constraint=models.CheckConstraint(condition=models.Q(('release_burst__gte', 1)), name='pgqueue_limit_release_burst'),
        ),
        migrations.AddIndex(
            model_name='channel',
            index=models.Index(condition=models.Q(('changed_at__isnull', False)), fields=['changed_at'], name='pgqueue_channel_changed'),
        ),
        migrations.AddIndex(
            model_name='channel',
            index=models.Index(condition=models.Q(('paused_until__isnull', False)), fields=['paused_until'], name='pgqueue_channel_paused_until'),
        ),
        migrations.AddIndex(
            model_name='channel',
            index=models.Index(condition=models.Q(('released_at__isnull', False)), fields=['released_at'], name='pgqueue_channel_released'),
        ),
        migrations.AddIndex(
            model_name='channel',
            index=models.Index(condition=models.Q(('archive', 'none')), fields=['queue', 'name'], name='pgqueue_channel_unarchived'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(fields=('queue', 'name'), name='pgqueue_channel_name'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('queue', ''), _negated=True)), name='pgqueue_channel_named'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('max_concurrency', None), ('max_concurrency__gte', 1), _connector='OR'), name='pgqueue_channel_max_concurrency'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('max_size', None), ('max_size__gte', 1), _connector='OR'), name='pgqueue_channel_max_size'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('release_interval', None), ('release_interval__gt', '00:00:00'), _connector='OR'), name='pgqueue_channel_release_interval'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('release_burst__gte', 1)), name='pgqueue_channel_release_burst'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('weight__range', (1, 1000))), name='pgqueue_channel_weight'),
        ),
        migrations.AddIndex(
            model_name='activity',
            index=models.Index(fields=['minutes', 'bucket_at'], name='pgqueue_activity_bucket'),
        ),
        migrations.AddIndex(
            model_name='activity',
            index=models.Index(condition=models.Q(('channel', None)), fields=['minutes', 'bucket_at'], name='pgqueue_activity_queues'),
        ),
        migrations.AddIndex(
            model_name='activity',
            index=models.Index(condition=models.Q(('channel__isnull', False), ('dead__gt', 0)), fields=['minutes', 'bucket_at'], name='pgqueue_activity_dead'),
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
        migrations.AddIndex(
            model_name='deadletter',
            index=models.Index(condition=models.Q(('redriven_at', None)), fields=['queue', 'channel'], name='pgqueue_dead_letter_waiting'),
        ),
        migrations.AddField(
            model_name='message',
            name='channel',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='messages', to='pgqueue.channel', verbose_name='channel'),
        ),
        migrations.AddIndex(
            model_name='queue',
            index=models.Index(condition=models.Q(('events', True), models.Q(('archive', 'full'), _negated=True), _connector='OR'), fields=['name'], name='pgqueue_queue_special'),
        ),
        migrations.AddConstraint(
            model_name='queue',
            constraint=models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='pgqueue_queue_named'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(condition=models.Q(('enabled', True), ('removed_at', None)), fields=['next_fire_at'], name='pgqueue_schedule_due'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('handler', ''), _negated=True), models.Q(('queue', ''), _negated=True), models.Q(('channel', ''), _negated=True)), name='pgqueue_schedule_named'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cron__isnull', False), ('every', None)), models.Q(('cron', None), ('every__isnull', False)), _connector='OR'), name='pgqueue_schedule_when'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(('every', None), ('every__range', (datetime.timedelta(seconds=1), datetime.timedelta(days=3660))), _connector='OR'), name='pgqueue_schedule_every'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(('missed__in', ['skip', 'once', 'all'])), name='pgqueue_schedule_missed'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(('missed_limit__range', (1, 1000))), name='pgqueue_schedule_missed_limit'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(('grace__gte', datetime.timedelta(0))), name='pgqueue_schedule_grace'),
        ),
        migrations.AddIndex(
            model_name='scheduletick',
            index=models.Index(fields=['fired_at'], name='pgqueue_schedule_tick_fired'),
        ),
        migrations.AddConstraint(
            model_name='scheduletick',
            constraint=models.UniqueConstraint(fields=('schedule', 'tick_at'), name='pgqueue_schedule_tick_once'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(models.F('channel'), django_pgqueue.models.expressions.Negated('priority'), models.F('dequeue_at'), models.F('id'), condition=models.Q(('status', 1)), name='pgqueue_message_ready'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('status', 2)), fields=['channel', 'leased_at'], name='pgqueue_message_leased'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('lease_expires_at__isnull', False)), fields=['lease_expires_at'], name='pgqueue_message_expiry'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('status', 3)), fields=['channel', 'dequeue_at'], name='pgqueue_message_scheduled'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('status', 3), ('waits_for__isnull', True)), fields=['dequeue_at'], name='pgqueue_message_due'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(models.F('waits_for'), models.F('channel'), django_pgqueue.models.expressions.Negated('priority'), models.F('dequeue_at'), models.F('id'), condition=models.Q(('waits_for__isnull', False)), name='pgqueue_message_waiting'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('promoted_for__isnull', False)), fields=['promoted_for', 'channel'], name='pgqueue_message_promoted'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('dedupe_key__isnull', False)), fields=('channel', 'dedupe_key'), name='pgqueue_message_dedupe'),
        ),
        InstallTables("archive", 1, drop=["TABLE pgqueue_archived_message, pgqueue_unarchived, pgqueue_unarchived_total"]),
        InstallTables(
            "runtime",
            1,
            drop=[
                "TABLE pgqueue_lane, pgqueue_arrival, pgqueue_floor, pgqueue_channel_size, pgqueue_departure, pgqueue_waiter, pgqueue_pruned, pgqueue_tally, pgqueue_queue_warning, pgqueue_limit_handler, pgqueue_place, pgqueue_meter",
                "SEQUENCE pgqueue_lane_seq, pgqueue_warned_dead_letter, pgqueue_warned_lease_expired",
                "TYPE pgqueue_delivery, pgqueue_request, pgqueue_room",
            ],
        ),
        InstallTables("storage", 1, drop=[]),
        InstallTables("schedule", 1, drop=[]),
        InstallTables("activity", 1, drop=["TABLE pgqueue_measurement"]),
    ]
