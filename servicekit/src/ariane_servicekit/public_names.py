"""The names of this package; each is loaded when it is first asked for.

The command line runs servicers in its own process, and needs neither settings nor logs nor servers.
"""

from __future__ import annotations

from typing import Final

from ariane_record.late_names import LateNames

_NAMES: Final = LateNames("ariane_servicekit")
listed: Final = _NAMES.names()
found = _NAMES.found
names = _NAMES.names
