SELECT count(*) FROM pgqueue_dead_letter;
