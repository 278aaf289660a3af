from django.db import migrations

from django_pgqueue.sql.operations import LockTimeout


class Migration(migrations.Migration):
    dependencies = [("upgrade", "0001_functions")]
    operations = [
        LockTimeout(2.0),
        migrations.RunSQL(
            "ALTER TABLE pgqueue_message ADD COLUMN chaos_note text NOT NULL DEFAULT ''",
            "ALTER TABLE pgqueue_message DROP COLUMN chaos_note",
        ),
    ]
