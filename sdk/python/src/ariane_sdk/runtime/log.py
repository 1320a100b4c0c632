"""The logger of this package.

It has no handler: if the application configures no logging, Python writes warnings and errors to
standard error. So the failure of a listener is always visible.
"""

from __future__ import annotations

import logging
from typing import Final

logger: Final = logging.getLogger("ariane_sdk")
