"""Public names of a package that are loaded on first use."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final


class LateNames:
    """The implementation of a package's ``__getattr__`` and ``__dir__``.

    Attributes:
        home_of: The module of each name.
    """

    def __init__(self, package: str, homes: Mapping[str, tuple[str, ...]]) -> None:
        """Load nothing yet; ``homes`` has the names by the modules that they are in."""
        self._package: Final = package
        self.home_of: Final = {name: home for home, names in homes.items() for name in names}

    def found(self, name: str) -> object:
        """The object of a name.

        Raises:
            AttributeError: The name does not exist.
        """
        if name not in self.home_of:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        value = getattr(import_module(self.home_of[name]), name)
        setattr(sys.modules[self._package], name, value)
        return value

    def names(self) -> list[str]:
        """All names."""
        return sorted(self.home_of)
