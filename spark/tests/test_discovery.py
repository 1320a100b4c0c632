"""What every Spark job of a machine imports must be cheap."""

import subprocess
import sys

CODE = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_ariane
print(" ".join(sorted(set(sys.modules) - before)))
print(pyspark_ariane.DefaultSource.name())
"""


def test_discovery_imports_nothing_but_spark():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines() == ["pyspark_ariane pyspark_ariane.default_source", "ariane"]
