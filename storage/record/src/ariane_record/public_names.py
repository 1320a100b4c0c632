"""The names of this package; each is loaded on first use.

Programs without records use the rules for names, and numpy takes long to load.
"""

from __future__ import annotations

from typing import Final

from ariane_record.late_names import LateNames

_NAMES: Final = LateNames("ariane_record")
listed: Final = _NAMES.names()
found = _NAMES.found
names = _NAMES.names
