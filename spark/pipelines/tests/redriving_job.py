"""Sends the dead letters of a group back, repaired. Run by a test, as a process, to be killed.

Run as ``python redriving_job.py NAME_SERVERS GROUP FOLDER``.
"""

import sys
from dataclasses import replace

from ariane_pipelines import RedrivePlan, redrive
from ariane_spark import session


def main(name_servers, group, folder):
    def mend(letter):
        return replace(letter, body=b"mended " + letter.body)

    spark = session(
        "redriving",
        master="local[2,4]",
        settings={
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    plan = RedrivePlan(endpoints=name_servers, group=group, state=f"{folder}/state", repair=mend)
    report = redrive(spark, plan)
    counts = report.finished_count, report.sent_count, report.sent_before_count
    sys.stdout.write(f"{counts}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
