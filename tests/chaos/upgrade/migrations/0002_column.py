from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("upgrade", "0001_functions")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE pgqueue_message ADD COLUMN chaos_note text NOT NULL DEFAULT ''",
            "ALTER TABLE pgqueue_message DROP COLUMN chaos_note",
        )
    ]
