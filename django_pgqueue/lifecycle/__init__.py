"""Hold the verbs of the queue. Each file has one function: it binds arguments, calls pgqueue_<verb> and returns values.
The rules are in PostgreSQL."""
