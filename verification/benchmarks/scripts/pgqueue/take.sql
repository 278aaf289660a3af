SELECT id, token FROM pgqueue_dequeue('default', %(batch)s, '60 s', 'probe')
