"""What workers of Spark have loaded is not looked at behind every task."""

import subprocess
import sys

import pytest

SPARED = """
import gc, sys, types
from ariane_spark.source import stream_reader
from ariane_spark.calls.spared_modules import spare_modules

class Knot:
    def __init__(self):
        self.itself = self

loaded = len(gc.get_objects())
Knot()
assert spare_modules()
assert not [one for one in gc.get_objects() if isinstance(one, Knot)]
assert gc.get_freeze_count() > 0.9 * loaded, (gc.get_freeze_count(), loaded)
assert not spare_modules()
frozen = gc.get_freeze_count()
for number in range(100):
    sys.modules[f"more_{number}"] = types.ModuleType(f"more_{number}")
assert spare_modules()
assert gc.get_freeze_count() > frozen
Knot()
assert gc.collect() >= 1
"""

FOUND = """
import gc
from pyspark_ariane import DefaultSource
from ariane_spark.calls.connection import connect_once
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
{use}
assert gc.get_freeze_count() > 10_000
"""


def run(program):
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_is_loaded_is_spared_and_garbage_is_not():
    run(SPARED)


@pytest.mark.parametrize(
    "use",
    [
        "DefaultSource({'endpoints': 'n:1', 'topic': 't'}).schema()",
        "connect_once(read_options({'endpoints': 'n:1', 'topic': 't'}, Use.BATCH_READ))",
    ],
)
def test_planners_and_tasks_spare_it(use):
    run(FOUND.format(use=use))
