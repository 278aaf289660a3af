SELECT EXISTS (SELECT FROM pgqueue_arrival);
