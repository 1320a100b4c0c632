"""The names of this package; each is loaded when it is first asked for.

A program that asks about the cluster loads neither numpy nor what sends and consumes: two thirds of
all that the package can do, and of the time to load it.
"""

from __future__ import annotations

from typing import Final

from ariane_record.late_names import LateNames

_NAMES: Final = LateNames("ariane_sdk")
listed: Final = _NAMES.names()
found = _NAMES.found
names = _NAMES.names
