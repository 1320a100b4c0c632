"""Plants a fault into a module as it is imported: no file is changed."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from played_world.planted.planted_faults import Planted


def planted_source(planted: Planted, source: str) -> str:
    """The source of a module with the fault.

    Raises:
        ValueError: What is to be replaced does not stand there exactly once.
    """
    count = source.count(planted.right)
    if count != 1:
        raise ValueError(f"{planted.name}: found {count} times in {planted.path}")
    return source.replace(planted.right, planted.wrong)


def plant(planted: Planted) -> None:
    """Let a module be imported with a fault from now on."""
    place = planted.path
    read = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> object:
        path = loader.get_filename(fullname)
        if not path.endswith(place):
            return read(loader, fullname)
        source = planted_source(planted, Path(path).read_text())
        return compile(source, path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
