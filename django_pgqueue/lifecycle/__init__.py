"""The verbs. One file, one function: it binds arguments, calls pgqueue_<verb> and returns values. The rules are in
PostgreSQL."""
