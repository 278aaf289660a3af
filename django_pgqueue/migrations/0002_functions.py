from django.db import migrations

from django_pgqueue.sql.operations import InstallFunction


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0001_initial"),
    ]

    operations = [
        InstallFunction("pgqueue_absorb", 1),
        InstallFunction("pgqueue_allowance", 1),
        InstallFunction("pgqueue_announce", 1),
        InstallFunction("pgqueue_archive", 1),
        InstallFunction("pgqueue_backoff", 1),
        InstallFunction("pgqueue_cancel", 1),
        InstallFunction("pgqueue_channel_changed", 1),
        InstallFunction("pgqueue_channel_pause", 1),
        InstallFunction("pgqueue_channel_release", 1),
        InstallFunction("pgqueue_channel_resume", 1),
        InstallFunction("pgqueue_channel_set", 1),
        InstallFunction("pgqueue_complete", 1),
        InstallFunction("pgqueue_count_live", 1),
        InstallFunction("pgqueue_dead_letter", 1),
        InstallFunction("pgqueue_defer", 1),
        InstallFunction("pgqueue_depart", 1),
        InstallFunction("pgqueue_dequeue", 1),
        InstallFunction("pgqueue_enqueue", 1),
        InstallFunction("pgqueue_enqueue_many", 1),
        InstallFunction("pgqueue_find_duplicate", 1),
        InstallFunction("pgqueue_heartbeat", 1),
        InstallFunction("pgqueue_lane_is_held", 1),
        InstallFunction("pgqueue_lease_lost", 1),
        InstallFunction("pgqueue_leave_limited", 1),
        InstallFunction("pgqueue_lock_size", 1),
        InstallFunction("pgqueue_make_partitions", 1),
        InstallFunction("pgqueue_may_warn", 1),
        InstallFunction("pgqueue_message_arrived", 1),
        InstallFunction("pgqueue_metrics", 1),
        InstallFunction("pgqueue_missing_channel", 1),
        InstallFunction("pgqueue_missing_queue", 1),
        InstallFunction("pgqueue_peek", 1),
        InstallFunction("pgqueue_pop", 1),
        InstallFunction("pgqueue_promote", 1),
        InstallFunction("pgqueue_prune", 1),
        InstallFunction("pgqueue_publish", 1),
        InstallFunction("pgqueue_purge", 1),
        InstallFunction("pgqueue_queue_pause", 1),
        InstallFunction("pgqueue_queue_resume", 1),
        InstallFunction("pgqueue_raise_floors", 1),
        InstallFunction("pgqueue_recount", 1),
        InstallFunction("pgqueue_redrive", 1),
        InstallFunction("pgqueue_refuse_take", 1),
        InstallFunction("pgqueue_reserve", 1),
        InstallFunction("pgqueue_restamp", 1),
        InstallFunction("pgqueue_retry", 1),
        InstallFunction("pgqueue_settled_before", 1),
        InstallFunction("pgqueue_sweep", 1),
        InstallFunction("pgqueue_take", 1),
        InstallFunction("pgqueue_take_arrived", 1),
        InstallFunction("pgqueue_take_shared", 1),
        InstallFunction("pgqueue_tick", 1),
        InstallFunction("pgqueue_unpark", 1),
        InstallFunction("pgqueue_validate", 1),
        InstallFunction("pgqueue_wait", 1),
        InstallFunction("pgqueue_wake", 1),
        migrations.RunSQL(
            "SELECT pgqueue_make_partitions(7)",
            "DO $$ DECLARE v_name regclass; BEGIN"
            " FOR v_name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'pgqueue_archived_message'::regclass"
            " LOOP EXECUTE format('DROP TABLE %s', v_name); END LOOP; END $$",
        ),
    ]
