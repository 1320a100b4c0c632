"""Which release of the client this is."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

__version__: Final = version("ariane-sdk")
"""The version of the distribution, such as "1.4.0"."""
