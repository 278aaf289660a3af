"""Hold the numbers of the worker with their reasons, along the path of a message; in seconds where a name says so."""

from __future__ import annotations

# Looking for messages.

# The time between two looks with --drain, while messages run or wait for a limit.
DRAIN_INTERVAL_SECONDS = 0.05
# With --once, the worker ends after this number of looks in a row that found only messages locked by others: 0.5 s.
ONCE_TRIES = 10
# While some handlers have no free slot, nothing notifies of messages of the others, and to find them behind the rest
# costs a walk. So after a look that found none, the next one comes after SELECTIVE_SECONDS; the time doubles up to
# LONGEST_SELECTIVE_SECONDS.
SELECTIVE_SECONDS = 0.01
LONGEST_SELECTIVE_SECONDS = 0.1
# Where only handlers with a concurrency have no free slot, a look for messages of any handler follows at times, which
# sets theirs aside: others may stand far behind them.
ASIDE_SECONDS = 1.0
# The time from one look to the next while messages trickle in: a look costs about the same for one message as for
# several. The processes of a supervisor share it: each looks less often, all together as often as one would.
REST_SECONDS = 0.003
# A look that finds more messages than this without filling it shows a load under which looks are a large part of
# the server's work. The next one waits for some times as long as this one took, which is long where processors are
# short, and at most LONGEST_REST_SECONDS for each process.
MANY_MESSAGES = 12
TIMES_OF_A_LOOK = 4
LONGEST_REST_SECONDS = 0.012
# The time between the look for one message and that for more: only one thread runs at a time, and this leaves the turn
# to the thread of the handler.
HANDLER_FIRST_SECONDS = 0.0003
# After VAIN_NOTIFICATIONS in a row that another worker answered first, this worker withdraws its announcement for
# WITHDRAWN_SECONDS. Until it finds a message, the next vain notification is enough, and the time doubles each time.
# Transactions that notify commit one after the other, so needless notifications slow down enqueuers.
VAIN_NOTIFICATIONS = 3
WITHDRAWN_SECONDS = 0.1
LONGEST_WITHDRAWN_SECONDS = 0.4
# Meanwhile it looks by itself: the others may have no free slot any more.
WITHDRAWN_LOOK_SECONDS = 0.05
# An announcement holds for this time longer than two polls: an idle worker seldom writes one, and one that was killed
# is notified in vain for as long.
ANNOUNCED_SECONDS = 20.0
# A flood begins after FLOOD_LOOKS looks in a row that found messages, and ends after EBB_LOOKS that found none.
FLOOD_LOOKS = 3
EBB_LOOKS = 3
# The first pause before another look at a channel that is due and locked by another worker. It doubles each time.
OVERDUE_PAUSE_SECONDS = 0.005
# The bounds of the pause while other consumers hold locks, whose release sends no notification.
SHORTEST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.1
# After this time without a notification, the listener asks whether the server is still there.
CHECK_SECONDS = 5.0
# How long the thread of a listener dozes at a time; it looks after each notification, too.
LISTEN_SECONDS = 3600.0
# A notification to itself must arrive within ECHO_SECONDS, or the listener is behind a transaction pooler. It tries
# again after DEAF_SECONDS.
ECHO_SECONDS = 3.0
DEAF_SECONDS = 60.0

# What is leased ahead, and what waits.

# A suspect waits at most SUSPECT_WAIT_SECONDS for running messages to end, and then starts beside them. It keeps others
# from starting for at most LONGEST_ALONE_SECONDS. So neither a long handler nor a long suspect stops the process.
SUSPECT_WAIT_SECONDS = 10.0
LONGEST_ALONE_SECONDS = 10.0
# A message must not wait longer than this in memory: another worker might have started it, its lease counts for the
# share and the limits of its channel, and it goes back if a breaker opens. It is some times as long as a dequeue.
LONGEST_WAIT_SECONDS = 0.02
# Memory holds at most the messages of this many dequeues.
MOST_DEQUEUES = 4
# With --once and --drain nothing goes back, so at most this many messages may wait here.
MOST_KEPT_MESSAGES = 1000
# The share of the old mean duration in the new one, of all calls and of one handler's messages.
OLD_MEAN_SHARE = 0.9
OLD_DURATION_SHARE = 0.5
# So many calls in a row must have been of handlers with a batch before free slots get batches: messages of another
# handler would wait in memory.
CALLS_WITH_A_BATCH = 8
# The bounds of the delay with which a message of a handler with a limit goes back to the queue.
SHORTEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1, 10

# Handlers.

# A task of the event loop goes on for this time before it gives the loop to tasks whose wait is over, and to new
# messages.
TURN_SECONDS = 0.005
# The time between two clean-ups of the connection that async handlers share, and after a failure the longest time for
# which no message starts until the clean-up is done. While nothing may start, the runner checks every RECHECK_SECONDS.
TIDY_SECONDS = 1.0
RECHECK_SECONDS = 0.25
# The shortest time between two log lines about one name. Names come from messages, so their number is bounded.
LOG_UNKNOWN_SECONDS = 60.0
MOST_LOGGED_NAMES = 1000
# What is kept of an error: characters of its message and traceback, causes, and members of a group.
MESSAGE_CHARACTERS = 2_000
TRACEBACK_CHARACTERS = 10_000
# The most messages of handlers with `gather` that wait for others, in each of threads and event loop.
MOST_GATHERED_MESSAGES = 2_000
# The last records that a handler logs (LOG_CAPTURE).
LOG_CHARACTERS = 65_536
CHAIN_ERRORS = 10
GROUP_ERRORS = 10
# A longer text is cut to this length before it is searched for secrets.
SEARCHED_CHARACTERS = 100_000

# Settling.

# The time in which outcomes are collected for one statement, and the most of them: docs/explanation/decisions/
# completions-are-collected.md.
COLLECT_SECONDS = 0.003
# How often an atomic handler is run again because the archive lacks a partition.
REPAIR_TRIES = 5
# For this time after it has written outcomes, the completer expects more of them.
BUSY_SECONDS = 0.01
MOST_OUTCOMES = 500
# After this many failures on a server that answers, the messages of a statement are settled one by one.
FAILURES_BEFORE_SPLIT = 3

# A process without progress, and its end.

# The longest time between two looks of a worker's main thread at deadlines and limits, or of the supervisor at its
# children; while a worker stops, the time between two looks whether all handlers have ended.
LOOK_SECONDS = 0.5
IDLE_LOOK_SECONDS = 0.02
# The time between two reports to the supervisor.
REPORT_SECONDS = 1.0
# After this part of a lease a child without a supervisor exits, because only the supervisor extends leases. It extends
# one up to 5/12 of its time after the last time, so 7/12 (0.58) may be left; afterwards another worker may start the
# message.
ORPHAN_LEASE_SHARE = 0.55
# The time for the last settlements, after the handlers have ended.
SHUTDOWN_SETTLE_SECONDS = 10.0
# More messages than any process holds at a time. The producer takes only as many as have a place.
MOST_PLACES = 16_384
# The time between two looks at a worker's row, which an operator may pause or remove. One that has not changed is
# written after UNCHANGED_SECONDS, or a third of a lease if that is less: max_share counts the workers that wrote theirs
# within 15 s, and a worker that was silent for a lease counts as dead.
REFRESH_SECONDS = 1.5
UNCHANGED_SECONDS = 6.0
# A row names at most this many running messages, those that run longest.
MOST_RUNNING_MESSAGES = 100
# A control loop that has not called beat() for this time hangs.
LONGEST_SILENCE_SECONDS = 10.0
# The time between two updates of the heartbeat file.
FILE_SECONDS = 1.0
# Seconds to reach the server with the request to cancel a query.
CANCEL_SECONDS = 2.0
# A worker that starts logs at most this many names of handlers.
MOST_HANDLER_NAMES = 20

# The supervisor and its processes.

# A child stops within its shutdown timeout, and then has 10 s to write its last outcomes. The rest of this margin is
# for a loaded machine.
STOP_MARGIN_SECONDS = 15.0
# After more failed starts in a row than this, --drain gives up: children that ended before they began a message.
MOST_FAILED_STARTS = 3
# A child that ran for longer than this did not die of its start.
WELL_SECONDS = 60.0
FIRST_DELAY_SECONDS = 0.5
# The longest delays: after a child that never became ready, because it cannot load its code, and after a child that
# worked, because a message killed it.
LONGEST_START_DELAY_SECONDS = 30.0
LONGEST_WORK_DELAY_SECONDS = 1.0
# The time in which a child that is to be killed writes the stacks of its threads to stderr.
LAST_WORDS_SECONDS = 0.3
# A frame has at most this many leases, so that it fits into what a socket buffers.
LEASES_OF_A_FRAME = 1000
# A child gives up a message itself after its deadline and the grace. If it has not done so after this time, it hangs.
OVERDUE_SECONDS = 5.0
CHILD_START_SECONDS = 120.0
# A child that runs no message and sends no frame for this time is stopped, or hangs outside of its handlers.
IDLE_SILENCE_SECONDS = 60.0
# A child is replaced after STALL_LEASES lease times without progress, but at least LEAST_STALL_SECONDS. Probes report
# it after a third of that.
STALL_LEASES = 3
LEAST_STALL_SECONDS = 10.0
# The last dequeue of a killed process may be committed after its end.
LOOK_AGAIN_SECONDS = 1.0
