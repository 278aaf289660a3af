SELECT count(*) AS taken, max(id) AS id, max(lease_token::text) AS token FROM row_dequeue('60 s') \gset
\if :taken = 0
\sleep 1 ms
\else
SELECT row_complete(:id, :token);
\endif
