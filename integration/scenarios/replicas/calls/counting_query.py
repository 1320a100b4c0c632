"""A streaming query that writes a line for each micro-batch, and one for each end."""

from __future__ import annotations

import json
import sys

from pyspark.errors import StreamingQueryException

from ariane_spark import session


def say(**words):
    print(json.dumps(words), flush=True)


def main(endpoints, topic, folder):
    spark = session(
        "counting",
        # No task is repeated: what is waited for here, the connector waits for.
        master="local[2]",
        settings={
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    rows = (
        spark.readStream.format("ariane")
        .options(endpoints=endpoints, topic=topic, startingOffsets="earliest")
        .load()
    )
    while True:
        query = (
            rows.writeStream.foreachBatch(lambda batch, _: say(rows=batch.count()))
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as failure:
            say(ended=str(failure)[:300])


if __name__ == "__main__":
    main(*sys.argv[1:])
