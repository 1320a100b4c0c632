"""The warning of a client that was started and never closed."""

from __future__ import annotations

import warnings


def warn_unclosed(client: object, name: str = "") -> None:
    """Warn that a client is thrown away while it runs: its messages or offsets may be lost.

    Args:
        client: The client.
        name: What it is for the application; by default its class.
    """
    warnings.warn(
        f"{name or type(client).__name__} was started and never closed: use it in a `with` block,"
        " or call close()",
        ResourceWarning,
        source=client,
        stacklevel=2,
    )
