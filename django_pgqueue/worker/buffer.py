"""Hold messages that are leased to this process until a thread or the event loop starts them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker import numbers

Alike = Callable[[Delivery, Delivery], bool]
# A handler, or None for a name that this process does not have, and the messages of one call.
Taken = tuple[Handler | None, list[Delivery]]


@dataclass(slots=True)
class Limited:
    """Hold the counts of a handler with ``concurrency``.

    ``limit``: how many of its messages may run at once. ``calls``: calls that run. ``here``: messages in this process.
    ``postponed``: messages that went back in a row. ``seconds``: the mean duration of a message.
    """

    limit: int
    calls: int = 0
    here: int = 0
    postponed: int = 0
    seconds: float = 0.0

    @property
    def is_full(self) -> bool:
        """Return whether no more messages may stay: at most limit × max(2, 0.02 s / mean duration)."""
        return self.here >= self.limit * max(2, numbers.LONGEST_WAIT_SECONDS / self.seconds if self.seconds else 0)

    @property
    def delay(self) -> int:
        """Return a rough number of seconds until one more message would start."""
        wait = self.postponed * self.seconds / self.limit
        return round(min(numbers.LONGEST_DELAY_SECONDS, max(numbers.SHORTEST_DELAY_SECONDS, wait)))


# The handler, queue and channel of messages that gather.
Place = tuple[str, str, str]


@dataclass(slots=True)
class Gathering:
    """Hold messages of one handler and channel that wait for others. ``until``: time.monotonic() of their start."""

    until: float
    messages: list[Delivery] = field(default_factory=list)


class Buffer:
    """Hold enough messages to keep ``concurrency`` calls of handlers busy for a moment.

    The threads have one, and the event loop. The channels take turns: the first message of a channel starts after at
    most one message of each other channel. A limit may let a channel have one message at a time, and that one must not
    wait for all that is leased ahead. Handlers with ``concurrency`` have no more calls at once; what waits for that is
    parked, and what would wait for long goes back to the queue. Messages of handlers with ``gather`` wait apart, until
    their time is over or a batch is full: they take no room from others.

    ``batch``: the most messages of one dequeue. ``keep``: nothing goes back, for a worker with ``once`` or ``drain``.
    ``held``: the names of handlers of which nothing may start (:class:`~django_pgqueue.worker.dispatch.Dispatch`).
    ``wake``: called when there is room for more messages. ``find``: returns the handler of a name, or None. ``alike``:
    returns whether one call may take both deliveries, if their handler is the same; None: always. It is safe for
    threads.

    ``on_ready``: called when messages may start; threads wait in :meth:`wait`. ``running``: messages that run.
    """

    def __init__(
        self,
        concurrency: int,
        batch: int,
        *,
        keep: bool,
        held: Collection[str],
        wake: Callable[[], None],
        find: Callable[[str], Handler | None] = handlers.find,
        alike: Alike | None = None,
    ) -> None:
        self.concurrency = concurrency
        self.running = 0
        self.closed = False
        self.on_ready: Callable[[], None] = lambda: None
        self._batch = batch
        self._keep = keep
        self._held_handlers = held
        self._wake = wake
        self._find = find
        self._alike = alike
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # The messages of each channel that has some, in the order of the turns, and their number.
        self._channels: OrderedDict[tuple[str, str], deque[Delivery]] = OrderedDict()
        self._count = 0
        # Messages of handlers that are held, and of those that may have no more calls now, by the handler.
        self._held: deque[Delivery] = deque()
        self._parked: dict[str, deque[Delivery]] = {}
        self._limited: dict[str, Limited] = {}
        self._gatherings: dict[Place, Gathering] = {}
        # Calls that run, and threads that wait for a message.
        self._calls = self._idle = 0
        # The mean duration of a call, the messages that a call takes, and the calls in a row that took more.
        self._seconds: float | None = None
        self._size = 1
        self._larger = 0

    @property
    def startable(self) -> int:
        """Return how many messages wait for a free slot alone."""
        return self._count

    @property
    def unstarted(self) -> int:
        """Return how many messages are here and do not run."""
        parked = sum(map(len, tuple(self._parked.values())))
        return self._count + len(self._held) + parked + self._gathered()

    @property
    def busy(self) -> bool:
        """Return whether messages run or wait here."""
        return bool(self.running or self._count or self._held)

    def full(self) -> list[str]:
        """Return the names of the handlers of which no more messages may stay."""
        return [name for name, state in tuple(self._limited.items()) if state.is_full] if self._limited else []

    def free(self) -> int:
        """Return how many more messages memory may take, the batch of a dequeue at most."""
        waiting = self._count + len(self._held)
        return max(0, min((self.concurrency - self._calls + self._ahead()) * self._size - waiting, self._batch))

    def room(self) -> int:
        """Return how many messages to dequeue now; 0 while enough are here, so that a dequeue takes many."""
        free = self.free()
        waits = self._count or self._held
        return free if not waits or free >= min(self._ahead() * self._size // 2, self._batch) else 0

    def _ahead(self) -> int:
        """Return how many calls to lease ahead."""
        if self._seconds is None:
            return 0
        return min(
            numbers.MOST_DEQUEUES * self._batch, int(self.concurrency * numbers.LONGEST_WAIT_SECONDS / self._seconds)
        )

    def put(self, deliveries: Sequence[Delivery], most: int) -> dict[int, list[Delivery]]:
        """Add at most ``most`` messages, and wake a thread for each, or the event loop.

        Returns those that go back to the queue, by the delay in seconds.
        """
        back: dict[int, list[Delivery]] = {}
        added, names, postponed = 0, set(), set()
        with self._lock:
            for delivery in deliveries:
                handler = handlers.find(delivery.handler)
                state = self._state(handler)
                if state is not None and state.is_full and not self._keep:
                    state.postponed += 1
                    postponed.add(delivery.handler)
                    back.setdefault(state.delay, []).append(delivery)
                elif added >= most:
                    back.setdefault(0, []).append(delivery)
                else:
                    if state is not None:
                        state.here += 1
                        names.add(delivery.handler)
                    if handler is not None and handler.gather is not None and not self._keep:
                        self._gather(delivery, handler)
                    else:
                        self._add(delivery)
                    added += 1
            for name in names - postponed:
                self._limited[name].postponed = 0
            self._changed.notify(added)
        self.on_ready()
        return back

    def wait(self) -> Taken | None:
        """Wait for the next messages to run in a thread, and return them; None when the buffer is closed."""
        with self._lock:
            while (taken := self.take(takers=1 + self._idle)) is None:
                if self.closed:
                    return None
                self._idle += 1
                seconds = self.gathers_for() if self._gatherings else None
                # It may have let some start whose time was not over a moment ago, in take().
                self._changed.wait(0 if self._count else seconds)
                self._idle -= 1
            if self._gatherings:
                self._changed.notify()  # this thread may have been the one that waited for their time
            # A message that is taken still counts, so only the last one makes room.
            room = 0 if self._count or self._held else self.room()
        if room:
            self._wake()
        return taken

    def take(self, *, takers: int = 1) -> Taken | None:
        """Return the next messages that may start, and their handler: one, or a batch; None: there are none.

        ``takers``: how many threads share the waiting messages; a batch leaves some for the other threads.
        """
        with self._lock:
            if self._gatherings:
                self._release()
            while self._count and not self.closed:
                first = self._pop(next(iter(self._channels)))
                handler = self._find(first.handler)
                if handler is not None and handler.name in self._held_handlers:
                    self._held.append(first)
                    continue
                if handler is not None and handler.concurrency is not None:
                    state = self._limited.setdefault(handler.name, Limited(1))
                    if state.calls >= handler.concurrency:
                        self._parked.setdefault(handler.name, deque()).append(first)
                        continue
                    state.calls += 1
                deliveries = [first]
                if handler is not None and handler.batch is not None:
                    deliveries = self._together(handler.batch, first, takers if handler.gather is None else 1)
                self.running += len(deliveries)
                self._calls += 1
                return handler, deliveries
        return None

    def finished(self, handler: Handler | None, count: int, seconds: float) -> None:
        """Record the end of a call that took ``seconds`` for ``count`` messages, and start what waited for it."""
        with self._lock:
            self.running -= count
            self._calls -= 1
            before, size = self._seconds, (handler.batch or 1) if handler is not None else 1
            self._seconds = max(
                1e-6, seconds if before is None else before + (1 - numbers.OLD_MEAN_SHARE) * (seconds - before)
            )
            self._larger = self._larger + 1 if size > self._size else 0
            if size < self._size or self._larger == numbers.CALLS_WITH_A_BATCH:
                self._size, self._larger = size, 0
            if handler is not None and handler.concurrency is not None:
                state, each, old = self._limited[handler.name], seconds / count, numbers.OLD_DURATION_SHARE
                state.calls -= 1
                state.here -= count
                state.seconds = old * state.seconds + (1 - old) * each if state.seconds else each
                if parked := self._parked.get(handler.name):
                    self._put_first([parked.popleft() for _ in range(min(len(parked), handler.batch or 1))])
            room = self.room()
        if room:
            self._wake()

    def resume(self) -> None:
        """Let messages start whose handlers are not held any more."""
        with self._lock:
            freed, self._held = self._held, deque()
            self._put_first(freed)

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the messages that match and were not started, and return them."""
        with self._lock:
            parked = [delivery for each in self._parked.values() for delivery in each]
            waiting = [delivery for each in self._channels.values() for delivery in each]
            gathered = [delivery for each in self._gatherings.values() for delivery in each.messages]
            found = [delivery for delivery in (*parked, *self._held, *waiting, *gathered) if matches(delivery)]
            if found:
                gone = set(map(id, found))

                def left(deliveries: Iterable[Delivery]) -> deque[Delivery]:
                    return deque(delivery for delivery in deliveries if id(delivery) not in gone)

                self._held = left(self._held)
                self._parked = {name: left(each) for name, each in self._parked.items()}
                self._channels = OrderedDict(
                    (key, kept) for key, each in self._channels.items() if (kept := left(each))
                )
                self._count = sum(map(len, self._channels.values()))
                for gathering in self._gatherings.values():
                    gathering.messages = [*left(gathering.messages)]
                for delivery in found:
                    if delivery.handler in self._limited:
                        self._limited[delivery.handler].here -= 1
        return found

    def drop(self, lost: Delivery) -> bool:
        """Remove this very delivery, whose lease is lost. Returns whether it was waiting here."""
        return bool(self.withdraw(lambda delivery: delivery is lost))

    def close(self) -> list[Delivery]:
        """Start no more messages. Returns those that were not started."""
        with self._lock:
            self.closed = True
            self._changed.notify_all()
            return self.withdraw(lambda delivery: True)

    def gathers_for(self) -> float | None:
        """Let start what has gathered for long enough; return for how many seconds the others do, None without any."""
        if not self._gatherings:
            return None
        with self._lock:
            self._release()
            ends = [gathering.until for gathering in self._gatherings.values()]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _gathered(self) -> int:
        return sum(len(each.messages) for each in tuple(self._gatherings.values())) if self._gatherings else 0

    def _add(self, delivery: Delivery) -> None:
        self._channels.setdefault((delivery.queue, delivery.channel), deque()).append(delivery)
        self._count += 1

    def _gather(self, delivery: Delivery, handler: Handler) -> None:
        """Let the message wait for others of its handler and channel."""
        place = (delivery.handler, delivery.queue, delivery.channel)
        seconds = handler.gather.total_seconds() if handler.gather else 0.0
        gathering = self._gatherings.setdefault(place, Gathering(time.monotonic() + seconds))
        gathering.messages.append(delivery)
        if len(gathering.messages) >= (handler.batch or 1) or self._gathered() > numbers.MOST_GATHERED_MESSAGES:
            gathering.until = 0.0
            self._release()

    def _release(self) -> None:
        """Let those messages start that have gathered for long enough."""
        now = time.monotonic()
        for place in [place for place, gathering in self._gatherings.items() if gathering.until <= now]:
            for delivery in self._gatherings.pop(place).messages:
                self._add(delivery)

    def _state(self, handler: Handler | None) -> Limited | None:
        """Return the counts of the handler, or None if it has no ``concurrency``."""
        if handler is None or handler.concurrency is None:
            return None
        state = self._limited.setdefault(handler.name, Limited(1))
        state.limit = handler.concurrency * (handler.batch or 1)
        return state

    def _pop(self, channel: tuple[str, str]) -> Delivery:
        """Remove the first message of the channel, and put the channel behind the others."""
        waiting = self._channels[channel]
        delivery = waiting.popleft()
        self._count -= 1
        if waiting:
            self._channels.move_to_end(channel)
        else:
            del self._channels[channel]
        return delivery

    def _put_first(self, deliveries: Sequence[Delivery]) -> None:
        """Add messages before all others, in their order."""
        for delivery in reversed(deliveries):
            channel = (delivery.queue, delivery.channel)
            self._channels.setdefault(channel, deque()).appendleft(delivery)
            self._channels.move_to_end(channel, last=False)
        self._count += len(deliveries)
        if deliveries:
            self._changed.notify_all()
            self.on_ready()

    def _together(self, most: int, first: Delivery, takers: int) -> list[Delivery]:
        """Return ``first`` and the messages that one call of its handler may take with it."""
        taken = [first]
        size = min(most, -(-(1 + self._count) // takers))
        channels = list(self._channels)
        while len(taken) < size and (channels := [each for each in channels if self._goes_with(first, each)]):
            taken += map(self._pop, channels[: size - len(taken)])
        return taken

    def _goes_with(self, first: Delivery, channel: tuple[str, str]) -> bool:
        """Return whether the first message of the channel, if there is one, may be in a batch with ``first``."""
        if channel not in self._channels:
            return False
        following = self._channels[channel][0]
        return following.handler == first.handler and (self._alike is None or self._alike(first, following))
