"""The logger of this package.

It has no handler of its own: where the application configures no logging, Python writes warnings
and errors to standard error. A listener that fails must not fail in silence.
"""

from __future__ import annotations

import logging
from typing import Final

logger: Final = logging.getLogger("ariane_sdk")
