SELECT count(row_complete(m.id, m.token)) FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS m (id, token)
