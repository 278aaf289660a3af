import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations

from django_pgqueue.sql.operations import TakeTriggerFunctionsBack


class Migration(migrations.Migration):
    """Triggers apart from the rest: creating one takes the strongest lock of its table, for an instant."""

    dependencies = [
        ('pgqueue', '0002_functions'),
    ]

    operations = [
        TakeTriggerFunctionsBack(
            "pgtrigger_channel_changed_e4b0f",
            "pgtrigger_dead_letter_added_5bbc5",
            "pgtrigger_limit_changed_de118",
            "pgtrigger_message_arrived_bae37",
            "pgtrigger_queue_changed_3b2fa",
            "pgtrigger_schedule_changed_870d1",
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='channel',
            trigger=pgtrigger.compiler.Trigger(name='channel_changed', sql=pgtrigger.compiler.UpsertTriggerSql(execute='pgqueue_channel_changed()', func='RETURN NULL;', hash='a77dd46b0100ae01f9e02e811e9dc6636b3c7e16', level='STATEMENT', operation='UPDATE', pgid='pgtrigger_channel_changed_e4b0f', referencing='REFERENCING OLD TABLE AS old_channels  NEW TABLE AS new_channels ', table='pgqueue_channel', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='deadletter',
            trigger=pgtrigger.compiler.Trigger(name='dead_letter_added', sql=pgtrigger.compiler.UpsertTriggerSql(execute='pgqueue_dead_letter_added()', func='RETURN NULL;', hash='0b9b07863cd41689df23cb1ff0f113e109f54567', level='STATEMENT', operation='INSERT', pgid='pgtrigger_dead_letter_added_5bbc5', referencing='REFERENCING NEW TABLE AS added ', table='pgqueue_dead_letter', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='message',
            trigger=pgtrigger.compiler.Trigger(name='message_arrived', sql=pgtrigger.compiler.UpsertTriggerSql(execute='pgqueue_message_arrived()', func='RETURN NULL;', hash='eb558fda9bfd2bb1a08318576114f10b2490203f', level='STATEMENT', operation='INSERT', pgid='pgtrigger_message_arrived_bae37', referencing='REFERENCING NEW TABLE AS arrived ', table='pgqueue_message', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='queue',
            trigger=pgtrigger.compiler.Trigger(name='queue_changed', sql=pgtrigger.compiler.UpsertTriggerSql(execute='pgqueue_queue_changed()', func='RETURN NULL;', hash='2018f97a6297d068efdacf9975ab58c5e57f20bb', level='STATEMENT', operation='UPDATE', pgid='pgtrigger_queue_changed_3b2fa', referencing='REFERENCING OLD TABLE AS old_queues  NEW TABLE AS new_queues ', table='pgqueue_queue', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='sharedlimit',
            trigger=pgtrigger.compiler.Trigger(name='limit_changed', sql=pgtrigger.compiler.UpsertTriggerSql(execute='pgqueue_limit_changed()', func='RETURN NULL;', hash='f5f63652472e5ba5c62e3f0e13f59d69f22bbaca', level='STATEMENT', operation='UPDATE', pgid='pgtrigger_limit_changed_de118', referencing='REFERENCING OLD TABLE AS old_limits  NEW TABLE AS new_limits ', table='pgqueue_limit', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='schedule',
            trigger=pgtrigger.compiler.Trigger(name='schedule_changed', sql=pgtrigger.compiler.UpsertTriggerSql(condition='WHEN (OLD."cron" IS DISTINCT FROM (NEW."cron") OR OLD."enabled" IS DISTINCT FROM (NEW."enabled") OR OLD."every" IS DISTINCT FROM (NEW."every") OR OLD."time_zone" IS DISTINCT FROM (NEW."time_zone"))', execute='pgqueue_schedule_changed()', func='RETURN NULL;', hash='62463766f111e5dec2b434e088ee712f70892f1e', operation='UPDATE OF "cron", "every", "time_zone", "enabled"', pgid='pgtrigger_schedule_changed_870d1', table='pgqueue_schedule', when='BEFORE')),
        ),
    ]
