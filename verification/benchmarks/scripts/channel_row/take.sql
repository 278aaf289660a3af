SELECT id, lease_token FROM row_dequeue('60 s')
