import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations


class Migration(migrations.Migration):
    """Triggers apart from the rest: creating one takes the strongest lock of its table, for an instant."""

    dependencies = [
        ("pgqueue", "0002_functions"),
    ]

    operations = [
        pgtrigger.migrations.AddTrigger(
            model_name='channel',
            trigger=pgtrigger.compiler.Trigger(name='channel_changed', sql=pgtrigger.compiler.UpsertTriggerSql(declare='DECLARE v_count bigint;', func='WITH changed AS (\n    SELECT n.id, n.queue\n    FROM new_channels AS n\n    JOIN old_channels AS o ON o.id = n.id\n    WHERE (n.max_concurrency, n.release_interval, n.release_burst, n.weight, n.paused_at, n.released_at)\n        IS DISTINCT FROM (o.max_concurrency, o.release_interval, o.release_burst, o.weight, o.paused_at, o.released_at)\n),\nnews AS (\n    INSERT INTO pgqueue_arrival (channel_id, kind)\n    SELECT c.id, 0 FROM changed AS c\n)\nSELECT count(pgqueue_wake(q.queue)) INTO v_count\nFROM (SELECT DISTINCT c.queue FROM changed AS c) AS q;\nRETURN NULL;\n', hash='ce06c7c4e223cb61475a7b810776ebc3557d6ab4', level='STATEMENT', operation='UPDATE', pgid='pgtrigger_channel_changed_e4b0f', referencing='REFERENCING OLD TABLE AS old_channels  NEW TABLE AS new_channels ', table='pgqueue_channel', when='AFTER')),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name='message',
            trigger=pgtrigger.compiler.Trigger(name='message_arrived', sql=pgtrigger.compiler.UpsertTriggerSql(declare='DECLARE v_now timestamptz := clock_timestamp(); v_queue text; v_news record;', func="FOR v_news IN\n    SELECT DISTINCT ON (a.channel_id)\n        a.channel_id,\n        c.queue,\n        c.released_at,\n        c.max_size,\n        a.status = 1 AND a.dequeue_at <= v_now AS ready,\n        count(*) OVER (PARTITION BY a.channel_id) AS messages,\n        bool_or(a.status = 1 AND a.dequeue_at > v_now) OVER (PARTITION BY a.channel_id) AS early,\n        -a.priority AS rank,\n        a.dequeue_at,\n        a.id\n    FROM arrived AS a\n    LEFT JOIN pgqueue_channel AS c ON c.id = a.channel_id\n    ORDER BY a.channel_id, a.status = 1 AND a.dequeue_at <= v_now DESC, -a.priority, a.dequeue_at, a.id\nLOOP\n    IF v_news.queue IS NULL THEN\n        RAISE EXCEPTION 'channel % does not exist', v_news.channel_id\n            USING ERRCODE = 'PGQ03', HINT = 'Create the channel first: pgqueue_channel_set(name, queue).';\n    ELSIF v_news.released_at IS NOT NULL THEN\n        RAISE EXCEPTION 'channel % has been released and takes no new messages', v_news.channel_id\n            USING ERRCODE = 'PGQ05', HINT = 'pgqueue_channel_set() opens it again.';\n    END IF;\n    IF v_news.max_size IS NOT NULL THEN\n        PERFORM pgqueue_reserve(v_news.channel_id, v_news.max_size, v_news.messages);\n    END IF;\n    -- A plain INSERT cannot know that a message for later has a status of its own.\n    IF v_news.early THEN\n        UPDATE pgqueue_message AS m\n        SET status = 3\n        FROM arrived AS a\n        WHERE m.id = a.id AND a.channel_id = v_news.channel_id AND a.status = 1 AND a.dequeue_at > v_now;\n    END IF;\n    IF v_news.ready THEN\n        INSERT INTO pgqueue_arrival (channel_id, messages, floor_rank, floor_at, floor_id)\n        VALUES (v_news.channel_id, v_news.messages, v_news.rank, v_news.dequeue_at, v_news.id);\n        IF v_news.queue IS DISTINCT FROM v_queue THEN\n            v_queue := v_news.queue;\n            PERFORM pgqueue_wake(v_queue);\n        END IF;\n    END IF;\nEND LOOP;\nRETURN NULL;\n", hash='f2522cdf11028a88ac4ca247e993fbcf4698046e', level='STATEMENT', operation='INSERT', pgid='pgtrigger_message_arrived_bae37', referencing='REFERENCING NEW TABLE AS arrived ', table='pgqueue_message', when='AFTER')),
        ),
    ]
