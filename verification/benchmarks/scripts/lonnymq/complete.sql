SELECT count(*)
  FROM unnest(%(ids)s::bigint[], %(tokens)s::uuid[]) AS m (id, token)
 CROSS JOIN LATERAL lonnymq.message_delete(m.id, right(m.token::text, 12)::bigint)
