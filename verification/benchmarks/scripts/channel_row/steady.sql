\set channel random(1, :channels)
SELECT row_enqueue('c' || :channel, '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}');
SELECT count(*) AS taken, max(id) AS id, max(lease_token::text) AS token FROM row_dequeue('60 s') \gset
\if :taken > 0
SELECT row_complete(:id, :token);
\endif
