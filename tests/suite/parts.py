"""The parts of the suite: which test runs when. Each test is in one part: the one that names it here, or else `test`.

A name is a folder, a file, or a test with or without its parameters. The part `slow` has the tests that are marked
`slow` and that no part names. To move a test, move its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from verification.compatibility.plan import PYTHONS

MAIN, SLOW = "test", "slow"
# The tests whose coverage is counted, and held against the floor in pyproject.toml.
COUNTED = (
    "tests/commands", "tests/contrib", "tests/doctor", "tests/flow", "tests/http", "tests/lifecycle",
    "tests/maintenance", "tests/schema", "tests/tasks", "tests/test_backoff.py", "tests/test_delivery.py",
    "tests/test_handler_functions.py", "tests/test_handlers.py", "tests/test_outcomes.py", "tests/test_package.py",
    "tests/test_redaction.py", "tests/test_timetable.py", "tests/testing",
)  # fmt: skip
# Tests of the part `test` that `make test-quick` runs, too.
QUICK = (
    "tests/lifecycle", "tests/schema", "tests/test_backoff.py", "tests/test_delivery.py",
    "tests/test_handler_functions.py", "tests/test_handlers.py", "tests/test_outcomes.py", "tests/test_package.py",
    "tests/test_redaction.py", "tests/test_timetable.py", "tests/worker/test_atomic.py",
    "tests/worker/test_atomic_batch.py", "tests/worker/test_outcomes.py", "tests/worker/test_shutdown.py",
)  # fmt: skip
# The tests that another version of PostgreSQL may answer in another way.
SQL = ("tests/lifecycle", "tests/schema", "tests/concurrency", "tests/flow")
# What decides about the queue's own rules, and so about its parts of the rest.
ENGINE = ("django_pgqueue/sql/", "django_pgqueue/migrations/", "django_pgqueue/flow/")
# What workers in other languages call.
CONTRACT = tuple(
    f"django_pgqueue/sql/functions/{part}/pgqueue_{verb}_v01.sql"
    for part, verbs in {
        "dequeue": ("dequeue", "heartbeat", "wait"),
        "settle": ("complete", "retry", "defer", "dead_letter"),
    }.items()
    for verb in verbs
)
PAGES = (
    "django_pgqueue/admin/", "django_pgqueue/charts/", "django_pgqueue/templates/", "django_pgqueue/static/",
    "tests/admin/browser/",
)  # fmt: skip
# These files take longest: they begin first, so that no process ends long after the others.
LONGEST = ("tests/spark", "tests/worker")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what `make test` leaves out.

    name       as it is called on the command line
    about      one line, for the list
    tests      the tests that run in this part alone, by folder, file or name
    commands   what runs in place of these tests, after `python -m`: tests of other parts in another way
    parallel   whether its tests run in several processes
    guards     after a change of these paths, CI runs this part, too; without any, only every night
    seconds    it takes on two idle cores, about
    """

    name: str
    about: str
    tests: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    parallel: bool = False
    guards: tuple[str, ...] = ()
    seconds: int = 0


def processes() -> int:
    """Return how many processes run tests at once: one more than there are cores, because tests wait for their server
    now and then; 1 where DATABASE_URL names the only server."""
    return 1 if os.environ.get("DATABASE_URL") else min(len(os.sched_getaffinity(0)), 7) + 1


def pytest(*arguments: str, parallel: bool = True) -> tuple[str, ...]:
    """Return the command that runs pytest, in several processes where that is possible."""
    return ("pytest", *([f"-n{processes()}"] if parallel and processes() > 1 else []), *arguments)


REST = (
    Part(
        "server",
        "the tests of the SQL on the other PostgreSQL of this machine",
        commands=(pytest("--pg=other", *SQL),),
        guards=ENGINE,
        seconds=300,
    ),
    Part(
        "hostile",
        "the tests of the verbs on a server with the settings, and the language, of another owner",
        commands=(pytest("--hostile", "tests/lifecycle", "tests/concurrency/test_dequeue_wait.py"),),
        guards=ENGINE,
        seconds=40,
    ),
    *(
        Part(
            f"matrix-{python}",
            f"telling tests on Python {python} with each Django that it runs, but for the one of this environment",
            commands=(("verification.compatibility", "--others", "--only", python),),
            guards=("pyproject.toml", "constraints.txt", "django_pgqueue/models/", "django_pgqueue/tasks/"),
            seconds=300,
        )
        for python in PYTHONS
    ),
    Part(
        "wheel",
        "the wheel in an empty environment",
        commands=(("verification.compatibility", "--wheel"),),
        guards=("pyproject.toml", "constraints.txt", "django_pgqueue/apps.py", "django_pgqueue/spark/provider/"),
        seconds=25,
    ),
    Part(
        "coverage",
        "the tests of the queue itself, with the lines that they run counted",
        commands=(
            ("coverage", "erase"),
            ("coverage", "run", "-m", *pytest("--part=test", *COUNTED)),
            ("coverage", "combine", "--quiet"),
            ("coverage", "report"),
        ),
    ),
    Part(
        "chaos",
        "the tier ci: workers, connections and servers that die under load, then a checked history",
        tests=("verification/chaos/test_runs.py::test_faults_of_every_kind_break_no_invariant",),
        guards=ENGINE,
        seconds=300,
    ),
    Part(
        "sabotage",
        "defects of the day that are put into the queue are noticed",
        tests=(
            "verification/chaos/test_sabotage.py",
            "verification/model_based/test_sabotage.py",
        ),
        guards=(
            "django_pgqueue/sql/functions/",
            "django_pgqueue/flow/sql/functions/",
            "verification/chaos/",
            "verification/model_based/",
        ),
        seconds=240,
    ),
    Part(
        "interleavings",
        "every ordered pair of calls: whether the second waits",
        tests=("verification/interleavings",),
        guards=(*ENGINE, "verification/interleavings/"),
        seconds=130,
    ),
    Part(
        "formal",
        "the models in TLA+, as the queue is and without each guard, and beside recorded histories",
        tests=("verification/formal", "verification/chaos/test_model.py"),
        guards=("verification/formal/",),
        seconds=300,
    ),
    Part(
        "model",
        "the queue beside a model of it, hundreds of cases",
        tests=(
            "verification/model_based/test_keys.py",
            "verification/model_based/test_machine.py",
            "verification/model_based/test_ordered.py::test_ordered_channels_do_what_the_model_does",
            "verification/model_based/test_pair.py",
        ),
        parallel=True,
        guards=(*ENGINE, "verification/model_based/"),
        seconds=300,
    ),
    Part(
        "browser",
        "the admin in Chromium",
        tests=("tests/admin/browser",),
        guards=PAGES,
        seconds=70,
    ),
    Part(
        "guides",
        "the documentation as a site, and guides that are followed in a new project",
        tests=(
            "tests/docs/test_followed.py::test_a_guide_can_be_followed_in_a_new_project",
            "tests/docs/test_followed.py::test_the_tutorial_of_a_tenant_can_be_followed_from_an_empty_folder",
            "tests/docs/test_site.py",
        ),
        guards=("docs/", "README.md", "tests/docs/"),
        seconds=55,
    ),
    Part(
        "plans",
        "plans of sessions that are older than what the tables hold",
        tests=("tests/schema/test_plans_of_old_sessions.py",),
        parallel=True,
        guards=ENGINE,
        seconds=60,
    ),
    Part(
        "faults",
        "connections that break at each statement, clocks that are wrong, hostile handlers",
        tests=(
            "tests/worker/test_deaths.py::test_a_process_that_cannot_even_give_up_what_is_overdue_is_killed",
            "tests/worker/test_deaths.py::test_children_of_a_killed_supervisor_are_gone_before_their_leases",
            "tests/worker/test_isolation.py::test_a_worker_serves_it[repeatable read-0]",
            "tests/worker/test_isolation.py::test_a_worker_serves_it[repeatable read-1]",
            "tests/worker/test_misfit.py::test_a_settlement_that_no_function_can_write_fails_no_message[scripted-0]",
            "tests/worker/test_misfit.py::test_a_settlement_that_no_function_can_write_fails_no_message[scripted.async-1]",
            "tests/worker/test_misfit.py::test_a_settlement_that_no_function_can_write_fails_no_message[scripted.atomic-0]",
            "tests/worker/test_misfit.py::test_a_settlement_that_no_function_can_write_fails_no_message[scripted.atomic-1]",
            "tests/worker/test_network.py::test_a_backend_may_be_terminated_at_any_step",
            "tests/worker/test_network.py::test_a_connection_may_break_around_any_statement",
            "tests/worker/test_network.py::test_a_listener_notices_that_it_is_not_notified_any_more",
            "tests/worker/test_network.py::test_a_slow_network_loses_no_lease",
            "tests/worker/test_network.py::test_a_worker_notices_that_its_connections_lead_nowhere",
            "tests/worker/test_network.py::test_messages_of_a_dequeue_that_comes_after_the_end_of_its_leases_are_not_started",
            "tests/worker/test_clock.py",
            "tests/worker/test_hostile.py",
            "tests/worker/test_faults.py::test_a_database_that_restarts_under_load_loses_nothing",
            "tests/worker/test_recycling.py::test_a_process_that_has_done_enough_is_replaced[--max-age]",
            "tests/worker/test_recycling.py::test_a_process_that_has_done_enough_is_replaced[--max-memory]",
            "tests/worker/test_stalls.py::test_a_process_that_can_start_no_thread_at_its_start_is_replaced",
            "tests/worker/test_stalls.py::test_a_process_that_can_start_no_thread_in_place_of_one_that_hangs_is_replaced",
            "tests/worker/test_stalls.py::test_a_process_whose_pipe_to_the_supervisor_is_full_is_replaced",
            "tests/worker/test_stalls.py::test_a_process_without_file_descriptors_is_replaced",
            "tests/worker/test_stalls.py::test_a_process_that_can_start_no_thread_makes_way_for_the_next_and_settles",
            "tests/worker/test_stalls.py::test_a_process_whose_completer_waits_for_a_leaked_lock_is_replaced",
            "tests/worker/test_supervisor.py::test_a_process_whose_code_does_not_load_is_started_again_more_and_more_seldom",
            "tests/worker/test_unsettled.py::test_a_handler_that_returns_and_kills_its_process_becomes_poison[scripted.async]",
            "tests/worker/test_unsettled.py::test_a_handler_that_returns_and_kills_its_process_becomes_poison[scripted.batch.plain]",
            "tests/worker/test_unsettled.py::test_its_neighbours_are_not_dead_lettered_in_its_place",
        ),
        parallel=True,
        guards=("django_pgqueue/worker/",),
        seconds=150,
    ),
    Part(
        "storage",
        "full disks, crashes of the server, promotions, clocks of the server that jump",
        tests=(
            "verification/chaos/test_disk_full.py",
            "verification/chaos/test_promotion.py",
            "verification/chaos/test_server.py::test_a_copied_database_survives_a_crash_before_its_first_checkpoint",
            "verification/chaos/test_server_clock.py::test_a_server_whose_clock_jumps_by_hours_loses_and_doubles_nothing",
            "verification/chaos/test_unlogged.py",
        ),
        guards=("django_pgqueue/sql/tables/", "verification/chaos/"),
        seconds=140,
    ),
    Part(
        "embedded",
        "the embedded server: as root and not, from two programs at once, whose data it is",
        tests=(
            "tests/embedded/test_as_root.py",
            "tests/embedded/test_concurrency.py",
            "tests/embedded/test_embeddedpg.py",
            "tests/embedded/test_ownership.py",
            "tests/embedded/test_temporary.py",
        ),
        parallel=True,
        guards=("django_pgqueue/embedded/", "tests/embedded/"),
        seconds=20,
    ),
    Part(
        "projects",
        "the demo once more, tests and types of a project, the source distribution",
        tests=(
            "verification/compatibility/test_package_files.py::test_a_wheel_can_be_built_from_the_source_distribution",
            "tests/demo/test_demo.py::test_a_corrupted_statistic_is_a_mismatch",
            "tests/demo/test_demo.py::test_a_run_after_a_killed_worker_is_not_held_up_by_its_leases",
            "tests/demo/test_demo.py::test_a_second_run_begins_from_the_beginning_and_leaves_other_queues_alone",
            "tests/testing/test_project.py::test_manage_py_test_in_parallel",
            "tests/testing/test_project.py::test_pytest_with_several_processes_and_databases_that_are_kept_for_weeks",
            "tests/typing",
        ),
        guards=("pyproject.toml", "django_pgqueue/testing/", "testproject/", "tests/typing/"),
        seconds=60,
    ),
    Part(
        "node",
        "the example of a worker in Node.js",
        tests=("tests/test_worker_node.py",),
        guards=("examples/worker-node/", "tests/test_worker_node.py", *CONTRACT),
        seconds=20,
    ),
    Part(
        "benchmarks",
        "whether the benchmarks run",
        tests=("verification/benchmarks",), parallel=True,
        guards=("verification/benchmarks/",),
        seconds=130,
    ),
    Part(
        "contests",
        "whether each group of benchmarks runs as a whole",
        tests=("verification/benchmarks/test_growth.py::test_each_contest_runs",),
    ),
    Part(
        "spark",
        "programs that start a Spark of their own, the examples of the documentation, stores that answer late or never",
        tests=(
            "tests/spark/test_datasource_docs.py",
            "tests/spark/test_datasource_write.py::test_tasks_that_die_after_their_work_and_run_again_enqueue_once",
            "tests/spark/test_datasource_write.py::test_workers_need_no_django",
            "tests/spark/test_export_command.py::test_the_password_of_the_source_is_nowhere",
            "tests/spark/test_publish_answers.py",
            "tests/spark/test_session.py",
        ),
        guards=("django_pgqueue/spark/", "django_pgqueue/pipeline/"),
        seconds=180,
    ),
    Part(
        "kills",
        "Spark killed at any moment, and on a cluster",
        tests=(
            "tests/spark/test_cluster.py",
            "tests/spark/test_datasource_kills.py",
            "tests/spark/test_export_kills.py",
            "tests/spark/test_lake_readers.py",
            "tests/spark/test_publish_kills.py",
            "tests/spark/test_rollup_runs.py::test_a_rollup_that_is_killed_while_it_writes_is_whole_or_not_there",
        ),
        guards=("django_pgqueue/spark/", "django_pgqueue/pipeline/"),
        seconds=300,
    ),
    Part(SLOW, "what takes minutes each and is nowhere else: storms of clients, upgrades under load, a driver killed"),
)  # fmt: skip
PARTS = {part.name: part for part in REST}


def within(nodeid: str, names: Iterable[str]) -> str | None:
    """Return the longest of the names that a test belongs to."""
    found = [name for name in names if nodeid == name or nodeid.startswith((f"{name}/", f"{name}::", f"{name}["))]
    return max(found, key=len, default=None)


def part_of(nodeid: str, *, slow: bool = False) -> str:
    """Return the name of the one part that a test is in; ``slow``: it has that mark."""
    owners = {name: part.name for part in REST for name in part.tests}
    if name := within(nodeid, owners):
        return owners[name]
    return SLOW if slow else MAIN


def parts_for(changed: Iterable[str]) -> list[Part]:
    """Return the parts that guard one of the changed paths, the quickest first."""
    paths = tuple(changed)
    return sorted(
        (part for part in REST if any(path.startswith(part.guards) for path in paths)), key=lambda part: part.seconds
    )
