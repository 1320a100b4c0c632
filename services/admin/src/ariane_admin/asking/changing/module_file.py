"""Reading modules of filters from files given to commands."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.exits import ExitStatus

MODULE_BYTES_MAX: Final = 1 << 20


def module_in(path: Path) -> bytes:
    """The module in a file.

    Raises:
        CommandFailed: It is empty, larger than FilterServers accept, or cannot be read.
    """
    try:
        size = path.stat().st_size
        if 1 <= size <= MODULE_BYTES_MAX:
            return path.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", ExitStatus.USAGE) from error
    raise CommandFailed(
        f"{path} has {size:,} bytes; a module must have 1 to {MODULE_BYTES_MAX:,}", ExitStatus.USAGE
    )
