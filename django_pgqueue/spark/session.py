"""Open a Spark session for one job: local by default, quiet, in UTC, with Python and Java found."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from django_pgqueue.spark.errors import PipelineError, refused_by_disk
from django_pgqueue.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")
# In local mode each core is a connection to the database, and shares the heap with the others.
MOST_CORES = 8
# A task that failed, or whose worker died, is tried again as on a cluster: local mode alone would give up at once.
ATTEMPTS = 4
LAST_BREATH_SECONDS = 5
LOOPBACK = "127.0.0.1"
LOGGING = Path(__file__).with_name("log4j2.properties")
ROOT = Path(__file__).parents[2]
# Where the session goes that is opened in a block of `keep_session`.
kept: list[ExitStack] = []

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


@contextmanager
def session(
    name: str,
    master: str | None = None,
    memory: str = "1g",
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Open a Spark session; at the end, stop it and remove its temporary files.

    ``master`` is Spark's address of a cluster (default: this machine, at most 8 cores), ``memory`` the driver's heap,
    ``conf`` more of Spark's settings. A session that this process has already is used as it is, and goes on; in a
    block of `keep_session` this one goes on, too. Raises PipelineError when Java is missing or too old, or does not
    start.
    """
    if active := _active():
        with _one_line_if_java_ends():
            yield active
        return
    with ExitStack() as stack, _one_line_if_java_ends():
        yield (kept[-1] if kept else stack).enter_context(_opened(name, master, memory, conf or {}))


def run_tasks(spark: SparkSession | None, tasks: Sequence[Task], perform: Callable[[Task], Result]) -> list[Result]:
    """Return the result of each task, from Spark's workers, or one after the other in this process without a session.

    Raises the PipelineError of a task that failed as it is: Spark would turn it into pages of text.
    """

    # The closure carries what the tasks share, such as the source: `parallelize` writes its arguments to a file.
    def attempt(task: Task) -> Result | PipelineError:
        try:
            return perform(task)
        except PipelineError as error:
            return error
        except OSError as error:
            if refusal := refused_by_disk(error):
                return refusal
            raise

    found: Iterable[Result | PipelineError] = map(attempt, tasks)
    if spark is not None and tasks:
        found = spark.sparkContext.parallelize(tasks, len(tasks)).map(attempt).collect()
    results: list[Result] = []
    for result in found:
        if isinstance(result, PipelineError):
            raise result
        results.append(result)
    return results


@contextmanager
def keep_session() -> Iterator[None]:
    """Keep the session that is opened in this block for others in it, and stop it at the end of the block."""
    with ExitStack() as stack:
        kept.append(stack)
        try:
            yield
        finally:
            kept.remove(stack)


@contextmanager
def _opened(name: str, master: str | None, memory: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    with TemporaryDirectory(prefix="pgqueue-spark-", ignore_cleanup_errors=True) as folder:
        master = master or f"local[{_cores()},{ATTEMPTS}]"
        settings = _settings(master, memory, Path(folder)) | dict(conf)
        with _one_line_if_java_ends():
            with _environment(local=master.startswith("local")):
                spark = _start(name, master, settings)
            try:
                yield spark
            finally:
                spark.stop()


@contextmanager
def _one_line_if_java_ends() -> Iterator[None]:
    from py4j.protocol import Py4JNetworkError

    try:
        yield
    except (ConnectionError, Py4JNetworkError):
        if java_ended(LAST_BREATH_SECONDS):
            raise PipelineError(
                "Java ended while Spark worked. If the system killed it for its memory, give it less (--memory) or the "
                "machine more. The commits of this run are kept: run it again."
            ) from None
        raise


def java_ended(within: float = 0) -> bool:
    """Return whether this process had a Java that has ended, or ends in so many seconds: its connections end first."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(within) is not None
    except subprocess.TimeoutExpired:
        return False


def _cores() -> int:
    return min(MOST_CORES, len(os.sched_getaffinity(0)))


def _active() -> SparkSession | None:
    """Return the session of this process, also one that another thread has made."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if active := SparkSession.getActiveSession():
        return active
    context = SparkContext._active_spark_context
    return SparkSession(context) if context is not None else None


def _settings(master: str, memory: str, folder: Path) -> dict[str, str]:
    settings = {
        **CONFIGURATION,
        "spark.driver.memory": memory,
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        "spark.driver.defaultJavaOptions": f'-Dlog4j2.configurationFile={LOGGING.as_uri()} "-Djava.io.tmpdir={folder}"',
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.local.dir": str(folder),
            # The default of 200 is for clusters: here each of them is one more small task.
            "spark.sql.shuffle.partitions": str(2 * _cores()),
        }
    return settings


@contextmanager
def _environment(*, local: bool) -> Iterator[None]:
    """Set the variables that the JVM and its Python workers inherit.

    They are set only while the JVM starts: other programs have another JAVA_HOME.
    """
    variables = {**find_java().environment, "PYTHONPATH": os.pathsep.join(_import_path())}
    if local:
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    if local or "PYSPARK_PYTHON" not in os.environ:
        # Spark's default, the `python3` of PATH, is not that of this virtual environment.
        variables["PYSPARK_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _import_path() -> list[str]:
    """Return PYTHONPATH, with this package added where it is imported from its source."""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if str(ROOT) not in installed:
        paths += [path for path in (str(ROOT), str(ROOT / "django_pgqueue/spark/provider")) if path not in paths]
    return paths


def _start(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master).config(map=dict(settings))
    try:
        with warnings.catch_warnings():
            # This warning is about pandas 3, which the pipeline does not use.
            warnings.simplefilter("ignore", FutureWarning)
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise PipelineError("Java ended before Spark had started; its last output is above this line.") from None
