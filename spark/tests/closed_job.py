"""Reads and writes a closed cluster on executors that have no credentials. Run by a test."""

import json
import sys
import urllib.request
from pathlib import Path

from pyspark.sql import functions as f

import ariane_spark


def main(master: str, java: str, endpoints: str, ca: str, key: str, folder: str) -> None:
    """Copy a topic at least once, exactly once and as a stream; say what Spark shows meanwhile."""
    spark = ariane_spark.session(
        "closed",
        master=master,
        settings={
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": java,
            "spark.driver.extraJavaOptions": java,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}/events",
            "spark.sql.ui.explainMode": "extended",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
        },
    )
    where = {"endpoints": endpoints, "tlsCa": ca, "accessKey": Path(key).read_text()}
    exactly = {"deliveryGuarantee": "exactly-once"}

    @f.udf("string", useArrow=False)
    def environment(_number):
        import os  # noqa: PLC0415 - in an executor.

        return ",".join(name for name in os.environ if name.startswith("ARIANE"))

    rows = spark.read.format("ariane").options(topic="orders", minPartitions="2", **where).load()
    shown = rows._jdf.queryExecution().toString()
    seen = rows.select(environment("queueOffset").alias("names")).distinct().collect()
    bodies = rows.select("body")
    bodies.write.format("ariane").mode("append").options(topic="once", **where).save()
    writer = bodies.write.format("ariane").mode("append").options(topic="twice", **where)
    writer.options(writeId="job-1", **exactly).save()
    for count in (1, 2):
        stream = spark.readStream.format("ariane").options(
            topicsPattern="order.*", startingOffsets="earliest", **where
        )
        query = (
            stream.load()
            .select("body")
            .writeStream.format("ariane")
            .options(topic="streamed", **exactly, **where)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        shown += json.dumps([each.json for each in query.recentProgress])
        if count == 1:
            some = bodies.limit(3).coalesce(1)
            some.write.format("ariane").mode("append").options(topic="orders", **where).save()
    counts = {
        topic: spark.read.format("ariane").options(topic=topic, **where).load().count()
        for topic in ("orders", "once", "twice", "streamed")
    }
    refused = ""
    try:
        plain = spark.read.format("ariane").options(endpoints=endpoints, numRetries="0")
        plain.options(topic="orders").load().count()
    except Exception as error:  # noqa: BLE001 - its text is what counts.
        refused = str(error)
    pages = spark.sparkContext.uiWebUrl
    ids = json.loads(_page(f"{pages}/api/v1/applications"))
    for page in ("sql?details=true&planDescription=true", "environment", "jobs", "stages"):
        shown += _page(f"{pages}/api/v1/applications/{ids[0]['id']}/{page}")
    for page in ("SQL/execution/?id=0", "SQL/execution/?id=2", "environment/", "StreamingQuery/"):
        shown += _page(f"{pages}/{page}")
    (Path(folder) / "shown").write_text(shown)
    spark.stop()
    told = {"counts": counts, "names": [row.names for row in seen], "refused": refused}
    sys.stdout.write(json.dumps(told))


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as page:  # noqa: S310 - Spark's own.
        return str(page.read(), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
