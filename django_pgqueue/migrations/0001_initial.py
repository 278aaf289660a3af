import django.db.models.deletion
import django_pgqueue.models.expressions
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
                ('queue', models.CharField(db_collation='C', db_default='default', default='default', help_text='Which workers serve it.', max_length=100)),
                ('name', models.CharField(db_collation='C', max_length=200)),
                ('max_concurrency', models.PositiveIntegerField(blank=True, help_text='Messages that may be leased at the same time. Empty: no limit. 1: strict first in, first out.', null=True)),
                ('max_size', models.PositiveIntegerField(blank=True, help_text='Live messages that the channel may hold. Empty: no limit.', null=True)),
                ('full_policy', models.CharField(choices=[('error', 'refuse with an error'), ('drop', 'drop it, and tell the caller'), ('drop_oldest', 'drop the oldest that wait'), ('replace', 'drop all that wait: it replaces them')], db_default='error', default='error', help_text='What happens to a message that does not fit.', max_length=20)),
                ('release_interval', models.DurationField(blank=True, help_text='At most one delivery in this time, retries included. Empty: no limit.', null=True)),
                ('release_burst', models.PositiveIntegerField(db_default=1, default=1, help_text='Deliveries that may come at once after a quiet time.')),
                ('weight', models.PositiveIntegerField(db_default=1, default=1, help_text='Messages per turn in the round robin.')),
                ('archive', models.CharField(blank=True, choices=[('full', 'everything'), ('outcome', 'the outcome, no payload'), ('none', 'nothing')], help_text='What the archive keeps of its messages. Empty: as the queue says.', max_length=10, null=True)),
                ('context', models.JSONField(blank=True, db_default={}, default=dict, help_text='What every message of the channel brings along.')),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.TextField(blank=True, db_default='', default='')),
                ('paused_until', models.DateTimeField(blank=True, help_text='The sweep resumes it then.', null=True)),
                ('released_at', models.DateTimeField(blank=True, help_text='Since then it takes no new messages; it goes away when it is empty.', null=True)),
                ('created_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), editable=False)),
                ('changed_at', models.DateTimeField(editable=False, help_text='When its limits changed last.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_channel',
                'ordering': ['queue', 'name'],
                'permissions': [('pause_channel', 'Can pause and resume channels'), ('purge_channel', 'Can purge channels')],
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
                ('reason', models.CharField(help_text="rejected, unreadable, failed, poison, timed_out, stopped, transaction_ended, discarded, or the handler's own word", max_length=200)),
                ('details', models.JSONField(null=True)),
                ('state', models.JSONField(null=True)),
                ('errors', models.JSONField(null=True)),
                ('dedupe_key', models.CharField(max_length=200, null=True)),
                ('worker', models.CharField(max_length=200, null=True)),
                ('redriven_from', models.BigIntegerField(null=True)),
                ('redriven_at', models.DateTimeField(null=True)),
                ('redriven_to', models.BigIntegerField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_dead_letter',
                'indexes': [models.Index(condition=models.Q(('redriven_at', None)), fields=['queue', 'channel'], name='pgqueue_dead_letter_waiting')],
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
                ('dequeue_at', models.DateTimeField(db_default=django_pgqueue.models.expressions.ClockTimestamp(), help_text='Not delivered before.')),
                ('status', models.SmallIntegerField(choices=[(1, 'ready'), (2, 'leased'), (3, 'scheduled')], db_default=1, default=1, editable=False)),
                ('attempts', models.IntegerField(db_default=0, default=0, editable=False)),
                ('max_attempts', models.IntegerField(db_default=5, default=5)),
                ('backoff', models.DurationField(blank=True, help_text='Pause after the first failure. Empty: one second.', null=True)),
                ('backoff_factor', models.FloatField(blank=True, help_text='How the pause grows, with jitter. Empty: 2. 1: constant, without jitter.', null=True)),
                ('backoff_longest', models.DurationField(blank=True, help_text='The longest pause. Empty: one hour.', null=True)),
                ('dedupe_key', models.CharField(blank=True, max_length=200, null=True)),
                ('state', models.JSONField(blank=True, help_text='What the last deferral saved.', null=True)),
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
                'permissions': [('cancel_message', 'Can cancel messages'), ('reschedule_message', 'Can reschedule messages'), ('discard_message', 'Can discard messages'), ('edit_message', 'Can edit the payload of messages'), ('release_message', 'Can release leases of messages')],
            },
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('name', models.CharField(db_collation='C', max_length=100, primary_key=True, serialize=False)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('pause_reason', models.TextField(blank=True, db_default='', default='')),
                ('paused_until', models.DateTimeField(blank=True, help_text='The sweep resumes it then.', null=True)),
                ('archive', models.CharField(choices=[('full', 'everything'), ('outcome', 'the outcome, no payload'), ('none', 'nothing')], db_default='full', default='full', help_text='What the archive keeps of its messages, unless the channel or the call says otherwise.', max_length=10)),
                ('events', models.BooleanField(db_default=False, default=False, help_text='NOTIFY of what happens to its messages, on pgqueue_events.')),
            ],
            options={
                'db_table': 'pgqueue_queue',
                'ordering': ['name'],
                'permissions': [('pause_queue', 'Can pause and resume queues'), ('purge_queue', 'Can purge queues'), ('drop_queue', 'Can drop queues')],
                'indexes': [models.Index(condition=models.Q(('events', True), models.Q(('archive', 'full'), _negated=True), _connector='OR'), fields=['name'], name='pgqueue_queue_special')],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='pgqueue_queue_named')],
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
        migrations.AddField(
            model_name='message',
            name='channel',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='messages', to='pgqueue.channel', verbose_name='channel'),
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
            index=models.Index(condition=models.Q(('status', 3)), fields=['dequeue_at', 'channel'], name='pgqueue_message_scheduled'),
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
                "TABLE pgqueue_lane, pgqueue_arrival, pgqueue_floor, pgqueue_channel_size, pgqueue_departure, pgqueue_waiter, pgqueue_tally, pgqueue_queue_warning",
                "SEQUENCE pgqueue_lane_seq, pgqueue_warned_dead_letter, pgqueue_warned_lease_expired",
            ],
        ),
        InstallTables("storage", 1, drop=[]),
    ]
