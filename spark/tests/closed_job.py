"""Reads and writes a closed cluster. Run by a test, as a process that has no credentials."""

import json
import sys
import urllib.request
from pathlib import Path

import ariane_spark


def main(java: str, endpoints: str, ca: str, key: str, folder: str) -> None:
    """Copy a topic at least once and, as a stream, exactly once; say what Spark shows meanwhile."""
    spark = ariane_spark.session(
        "closed",
        master="local[2,4]",
        settings={
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
    rows = spark.read.format("ariane").options(topic="orders", **where).load()
    shown = rows._jdf.queryExecution().toString()  # What the UI shows.
    written = rows.select("body").write.format("ariane").mode("append")
    written.options(topic="once", **where).save()
    stream = spark.readStream.format("ariane").options(startingOffsets="earliest", **where)
    query = (
        stream.options(topicsPattern="order.*")
        .load()
        .select("body")
        .writeStream.format("ariane")
        .options(topic="twice", deliveryGuarantee="exactly-once", **where)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    shown += json.dumps([each.json for each in query.recentProgress])
    copies = spark.read.format("ariane").options(topics="once, twice", **where).load()
    counts = {row["topic"]: row["count"] for row in copies.groupBy("topic").count().collect()}
    pages = spark.sparkContext.uiWebUrl
    ids = json.loads(_page(f"{pages}/api/v1/applications"))
    for page in ("sql?details=true&planDescription=true", "environment", "jobs", "stages"):
        shown += _page(f"{pages}/api/v1/applications/{ids[0]['id']}/{page}")
    for page in ("SQL/execution/?id=0", "SQL/execution/?id=1", "environment/", "StreamingQuery/"):
        shown += _page(f"{pages}/{page}")
    (Path(folder) / "shown").write_text(shown)
    spark.stop()
    sys.stdout.write(json.dumps(counts))


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as page:  # noqa: S310 - Spark's own.
        return str(page.read(), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
