SELECT msg_id, NULL::uuid FROM pgmq.read('benchmark', 60, %(batch)s::int)
