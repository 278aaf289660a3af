"""Counts what Dramatiq has done, because its broker does not."""

import common
import dramatiq


class Counting(dramatiq.Middleware):
    def after_process_message(
        self, broker: dramatiq.Broker, message: dramatiq.Message, *, result: object = None, exception: object = None
    ) -> None:
        if exception is None:
            common.count("completed")

    def after_nack(self, broker: dramatiq.Broker, message: dramatiq.Message) -> None:
        common.count("dead")
