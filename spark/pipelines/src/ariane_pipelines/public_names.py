"""The names of this package; each is loaded when it is first asked for.

Completion and help of ``ariane`` import the package, and would wait for Spark.
"""

from __future__ import annotations

from typing import Final

from ariane_record.late_names import LateNames

_NAMES: Final = LateNames("ariane_pipelines")
listed: Final = _NAMES.names()
found = _NAMES.found
names = _NAMES.names
