"""Public names of a package that are loaded on first use.

The names are those that type checkers read in ``__init__.py`` of the package, behind ``if
TYPE_CHECKING``; there is no other list. They are found in its compiled code, so a program that is
shipped without sources has them too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dis import get_instructions
from importlib import import_module
from typing import Any, Final


class LateNames:
    """The implementation of a package's ``__getattr__``, ``__dir__`` and ``__all__``."""

    def __init__(self, package: str) -> None:
        """Load nothing yet; the package may be one that is being imported."""
        self._package: Final = package
        self.home_of: Final = dict(_named_in(package))
        """The module of each name."""

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


def _named_in(package: str) -> Iterator[tuple[str, str]]:
    """The names that a package imports for type checkers alone, with their modules."""
    loader: Any = sys.modules[package].__loader__
    others = {"typing", f"{package}.public_names"}
    home = ""
    for step in get_instructions(loader.get_code(package)):
        if step.opname == "IMPORT_NAME":
            home = step.argval
        elif step.opname == "IMPORT_FROM" and home not in others:
            yield step.argval, home
