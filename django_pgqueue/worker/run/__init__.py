"""Run messages in threads, in the event loop or in processes, within limits and deadlines."""
