"""``python -m ariane_admin`` and ``ariane``."""

from __future__ import annotations

from ariane_admin.terminal.exits import ExitStatus


def main() -> int:
    """Run one command, that of the process, and return its exit status."""
    # Loading takes longer than many a command: Ctrl-C shows no trace there either.
    try:
        from ariane_admin.cli import main as run  # noqa: PLC0415 - inside the try

        return run()
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED


if __name__ == "__main__":
    raise SystemExit(main())
