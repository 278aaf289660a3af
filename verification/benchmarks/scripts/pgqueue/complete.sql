SELECT count(*) FROM pgqueue_complete(%(ids)s::bigint[], %(tokens)s::uuid[])
