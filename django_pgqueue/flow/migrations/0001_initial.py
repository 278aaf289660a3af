from django.db import migrations, models

from django_pgqueue.sql.operations import InstallFunction, InstallTables, allowed

# The default marks every new message with the batch that is open in its transaction.
MARK = """
ALTER TABLE pgqueue_message ALTER COLUMN flow SET DEFAULT nullif(current_setting('pgqueue.batch', true), '')::bigint;
CREATE TRIGGER pgqueue_batch_joined AFTER INSERT ON pgqueue_message REFERENCING NEW TABLE AS arrived
    FOR EACH STATEMENT WHEN (current_setting('pgqueue.batch', true) <> '') EXECUTE FUNCTION pgqueue_batch_joined();
CREATE CONSTRAINT TRIGGER pgqueue_after_committed AFTER INSERT ON pgqueue_batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.policy IS NOT NULL AND NEW.sealed_at IS NULL) EXECUTE FUNCTION pgqueue_after_committed();
CREATE TRIGGER pgqueue_after_redriven AFTER UPDATE ON pgqueue_dead_letter REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION pgqueue_after_dead_letter();
CREATE TRIGGER pgqueue_after_deleted AFTER DELETE ON pgqueue_dead_letter REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION pgqueue_after_dead_letter();
"""
# Without the app, no settlement may look for its functions, and nothing lets go what waits.
UNMARK = """
DROP TRIGGER IF EXISTS pgqueue_after_deleted ON pgqueue_dead_letter;
DROP TRIGGER IF EXISTS pgqueue_after_committed ON pgqueue_batch;
DROP TRIGGER IF EXISTS pgqueue_after_redriven ON pgqueue_dead_letter;
DROP TRIGGER IF EXISTS pgqueue_batch_joined ON pgqueue_message;
ALTER TABLE pgqueue_message ALTER COLUMN flow DROP DEFAULT;
UPDATE pgqueue_message SET flow = NULL, waits_for = nullif(waits_for, -2) WHERE flow IS NOT NULL;
"""


def mark(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, "pgqueue_flow"):
        schema_editor.execute(MARK, params=None)


def unmark(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql" and allowed(schema_editor, "pgqueue_flow"):
        schema_editor.execute(UNMARK, params=None)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('pgqueue', '0003_triggers'),
    ]

    operations = [
        migrations.CreateModel(
            name='BatchRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('parent_id', models.BigIntegerField(null=True)),
                ('on_done', models.JSONField(null=True)),
                ('on_dead', models.JSONField(null=True)),
                ('opened_at', models.DateTimeField()),
                ('sealed_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('total', models.BigIntegerField(default=0)),
                ('callback_id', models.BigIntegerField(null=True)),
                ('refusal', models.JSONField(null=True)),
                ('policy', models.TextField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_batch',
                'verbose_name': 'batch',
                'verbose_name_plural': 'batches',
                'managed': False,
            },
        ),
        InstallTables(
            "batch",
            1,
            drop=[
                "TABLE pgqueue_batch, pgqueue_batch_member, pgqueue_batch_lost, pgqueue_batch_added, "
                "pgqueue_batch_unsure"
            ],
        ),
        InstallTables("progress", 1, drop=["TABLE pgqueue_progress"]),
        InstallTables("step", 1, drop=["TABLE pgqueue_step"]),
        InstallTables("event", 1, drop=["TABLE pgqueue_event, pgqueue_event_unsure"]),
        InstallFunction("pgqueue_after_committed", 1),
        InstallFunction("pgqueue_after_dead_letter", 1),
        InstallFunction("pgqueue_after_end", 1),
        InstallFunction("pgqueue_after_explain", 1),
        InstallFunction("pgqueue_after_finish", 1),
        InstallFunction("pgqueue_after_hold", 1),
        InstallFunction("pgqueue_after_results", 1),
        InstallFunction("pgqueue_after_seal", 1),
        InstallFunction("pgqueue_after_settled", 1),
        InstallFunction("pgqueue_batch_check", 1),
        InstallFunction("pgqueue_batch_counts", 1),
        InstallFunction("pgqueue_batch_enter", 1),
        InstallFunction("pgqueue_batch_erase", 1),
        InstallFunction("pgqueue_batch_finish", 1),
        InstallFunction("pgqueue_batch_has_untouched", 1),
        InstallFunction("pgqueue_batch_join", 1),
        InstallFunction("pgqueue_batch_joined", 1),
        InstallFunction("pgqueue_batch_look", 1),
        InstallFunction("pgqueue_batch_open", 1),
        InstallFunction("pgqueue_batch_passes", 1),
        InstallFunction("pgqueue_batch_prune", 1),
        InstallFunction("pgqueue_batch_seal", 1),
        InstallFunction("pgqueue_batch_settle", 1),
        InstallFunction("pgqueue_batch_sweep", 1),
        InstallFunction("pgqueue_enqueue_after", 1),
        InstallFunction("pgqueue_event_sweep", 1),
        InstallFunction("pgqueue_event_wake", 1),
        InstallFunction("pgqueue_flow_settled", 1),
        InstallFunction("pgqueue_notify_event", 1),
        InstallFunction("pgqueue_is_mine", 1),
        InstallFunction("pgqueue_progress", 1),
        InstallFunction("pgqueue_progress_of", 1),
        InstallFunction("pgqueue_step_event", 1),
        InstallFunction("pgqueue_step_hold", 1),
        InstallFunction("pgqueue_step_keep", 1),
        InstallFunction("pgqueue_step_pause", 1),
        InstallFunction("pgqueue_steps", 1),
        migrations.RunPython(mark, unmark),
    ]
