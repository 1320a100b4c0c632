"""A Spark session that is set up for reading and writing queues."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"

_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    # A session for one machine listens on that machine only.
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    # On a cluster, workers may have this package only later, by an archive.
    "spark.python.daemon.module": "ariane_spark.worker_daemon",
    # One for each of 200 tasks is for clusters: here, most of their time is starting tasks.
    "spark.sql.shuffle.partitions": "8",
}
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Timestamps in results are the same as in the queue.
    "spark.sql.session.timeZone": "UTC",
    # transformWithState needs it, and large state does too.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Over TCP, a task whose description is longer than some 100 bytes waits 40 ms for it: Spark
    # writes it in small pieces, and the system delays the acknowledgement that the next one needs.
    "spark.python.unix.domain.socket.enabled": "true",
    # An idle query without a trigger would ask for new messages 100 times a second.
    "spark.sql.streaming.pollingDelay": "100ms",
}

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_UNDER_SPARK_SUBMIT: Final = frozenset({"MASTER", "PYSPARK_GATEWAY_PORT"})
"""Variables that show that the user has chosen where Spark runs."""


def session(
    app_name: str = "ariane",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    quiet: bool = True,
) -> SparkSession:
    """Get the running session, or start one.

    Workers run the Python of the driver: by default Spark takes the first ``python3`` of the path,
    which lacks the packages of a virtual environment.

    Args:
        app_name: The name in Spark's own tools.
        master: Where Spark runs, such as ``local[4]`` or ``spark://host:7077``. ``None``: by
            ``spark-submit``, or else on all cores of this machine, with four attempts per task.
        settings: Further settings of Spark, which override the ones of this function.
        quiet: Whether Spark logs only errors, and nothing of its start.

    Returns:
            The session. One that runs already is given only ``settings``, and of those only what
            Spark can still change.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    own = settings or {}
    if _is_running():
        return _get(own, quiet=quiet)
    master = own.get("spark.master", master)
    if master is None and not _UNDER_SPARK_SUBMIT.intersection(os.environ):
        master = f"local[{os.cpu_count() or 1},4]"
    if master is not None and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    wanted = {"spark.app.name": app_name, **first_settings(master, own)}
    with as_file(files("ariane_spark") / "log4j2.properties") as log_settings:
        if quiet:
            java_options = wanted.get(_JAVA_OPTIONS, "")
            log_option = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
            wanted[_JAVA_OPTIONS] = f"{java_options} {log_option}".strip()
        return _get(wanted, quiet=quiet)


def first_settings(master: str | None, own: Mapping[str, str]) -> dict[str, str]:
    """What a session starts with: the user's ``own`` settings, which win, and ours."""
    if master is None:
        return {**_SETTINGS, **own}
    local = _LOCAL_SETTINGS if master.startswith("local") else {}
    return {**local, **_SETTINGS, "spark.master": master, **own}


def _get(settings: Mapping[str, str], *, quiet: bool) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        if quiet:
            # Spark looks for pandas even if it is not used, and queues do not need it.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return builder.getOrCreate()


def _is_running() -> bool:
    """Whether there is a session, started in whatever thread."""
    try:
        SparkSession.active()
    except PySparkRuntimeError:
        return False
    return True


def activate(session: SparkSession) -> None:
    """Make a session the active one of this thread, as a write by a Python data source needs it.

    Spark looks for such sources in the active session only, and a thread that an application has
    started has none: ``save()`` then fails with ``DATA_SOURCE_NOT_FOUND``. Harmless elsewhere.
    """
    if SparkSession.getActiveSession() is None:
        # Of what Spark has for everybody to call, this activates it, and runs nothing.
        session.createDataFrame([], "nothing int")
