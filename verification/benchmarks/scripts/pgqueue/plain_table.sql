-- The same row in the same shape, with the same indexes; what is missing is the trigger.
CREATE TABLE plain_message (LIKE pgqueue_message INCLUDING ALL);
