"""The logger of this package. It says nothing unless the application wants to hear it."""

from __future__ import annotations

import logging
from typing import Final

logger: Final = logging.getLogger("ariane_sdk")
logger.addHandler(logging.NullHandler())
