SELECT count(*) FROM pgmq.archive('benchmark', %(ids)s::bigint[]) WHERE %(tokens)s::uuid[] IS NOT NULL
