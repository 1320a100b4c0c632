"""How many tasks run at once follows from what the driver was started with."""

import os

import pytest

from ariane_spark.source.parallelism import CLUSTER_TASKS, parallelism_of, settings_of

JAVA = ("java", "-cp", "jars/*", "-Xmx1g", "org.apache.spark.deploy.SparkSubmit")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--conf", "spark.master=local[3,4]", "pyspark-shell"), 3),
        (("--master", "local[*]"), 7),
        (("--master", "local"), 1),
        (("--master", "local-cluster[2, 5, 1024]"), 10),
        (("--master", "spark://host:7077", "--total-executor-cores", "48"), 48),
        (("--master", "k8s://https://host", "--num-executors", "10", "--executor-cores", "4"), 40),
        (("--master", "yarn", "--conf", "spark.executor.instances=12"), 12),
        (
            (
                *("--master", "yarn", "--conf", "spark.dynamicAllocation.maxExecutors=20"),
                *("--conf", "spark.executor.cores=4", "--conf", "spark.task.cpus=2"),
            ),
            40,
        ),
        (("--master", "spark://host:7077"), CLUSTER_TASKS),
        (("--master", "spark://host:7077", "--conf", "spark.executor.instances=2"), CLUSTER_TASKS),
    ],
)
def test_the_command_line_tells(arguments, expected):
    assert parallelism_of(settings_of([*JAVA, *arguments]), cores=7) == expected


def test_a_file_of_settings_counts_less(tmp_path):
    file = tmp_path / "spark.properties"
    file.write_text(
        "# a remark\nspark.master=yarn\nspark.executor.instances 9\nspark.executor.cores = 2\n"
    )
    arguments = [*JAVA, "--conf", "spark.executor.cores=8", "--properties-file", str(file)]
    assert parallelism_of(settings_of(arguments), cores=7) == 72
    missing = [*JAVA, "--master", "yarn", "--properties-file", str(tmp_path / "none")]
    assert parallelism_of(settings_of(missing), cores=7) == CLUSTER_TASKS


@pytest.mark.spark
def test_planners_find_it(spark, new_topic, reading, producer):
    """The session of the tests has two tasks at a time, whatever the machine has."""
    from ariane_sdk import Message  # noqa: PLC0415 - the fast tests need none.

    topic = new_topic(queue_count=8)
    producer.send_batch([Message(topic, b"%d" % n, message_group=f"g{n}") for n in range(200)])
    assert spark.sparkContext.defaultParallelism == 2
    assert reading(topic).load().rdd.getNumPartitions() == 2, os.cpu_count()
