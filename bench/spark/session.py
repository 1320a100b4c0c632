"""The Spark that its benchmarks share: two tasks at a time, all files in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import ariane_spark


@contextmanager
def session(folder: Path, jars: str | None = None) -> Iterator[SparkSession]:
    """Run it until the context ends; its workers find the modules of ``bench``.

    Args:
        folder: For its files.
        jars: A Java class path of what Spark itself does not have.
    """
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    settings = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
    }
    if jars is not None:
        settings["spark.driver.extraClassPath"] = jars
    spark = ariane_spark.session("bench", master="local[2]", settings=settings)
    try:
        yield spark
    finally:
        spark.stop()


def drain(frame: DataFrame) -> None:
    """Read everything, keep nothing."""
    frame.write.format("noop").mode("overwrite").save()
