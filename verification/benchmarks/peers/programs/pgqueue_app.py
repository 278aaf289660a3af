"""Ours: enqueue and enqueue_many with Django's own connection."""

import django

from verification.benchmarks.peers.programs import common

django.setup()

from django.core.management import call_command  # noqa: E402 (models need django.setup first)

from django_pgqueue import NewMessage, enqueue, enqueue_many  # noqa: E402


def main() -> None:
    verb, count, plan = common.arguments()
    if verb == "install":
        call_command("migrate", verbosity=0)
    elif verb == "fill":
        for keys in common.chunks(count):
            enqueue_many(NewMessage(handler="peers.noop", payload=common.payload(key)) for key in keys)
    else:
        common.produce(plan, lambda name, key: enqueue(f"peers.{name}", common.payload(key)))


if __name__ == "__main__":
    main()
