SELECT count(lonnymq.message_complete(m.id, right(m.token::text, 12)::bigint))
  FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS m (id, token)
