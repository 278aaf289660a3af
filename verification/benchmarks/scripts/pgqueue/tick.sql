SELECT pgqueue_tick();
