"""The pages of ``docs/`` that are made from the code: ``make docs``.

    python -m tools.reference generate   # write what differs
    python -m tools.reference stale      # fail where a page is not what the code says now

Settings, errors and commands are described once, where they are defined; a page that is written
twice is wrong once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.reference import (
    commands_page,
    errors_page,
    metrics_page,
    mqadmin_page,
    settings_page,
)
from tools.workspace import ROOT

DOCS: Final = ROOT / "docs"

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": settings_page.render,
    "errors.md": errors_page.render,
    "command-line.md": commands_page.render,
    "metrics.md": metrics_page.render,
    "mqadmin.md": mqadmin_page.render,
}
"""Pages by name below ``docs/``, and what makes their text."""

FILES: Final[Mapping[Path, Callable[[], str]]] = {
    ROOT / "services/admin/src/ariane_admin/reasons.json": errors_page.render_reasons,
}
"""Files of members that say the same as a page."""


def stale_pages(folder: Path = DOCS) -> dict[Path, str]:
    """The pages that differ from what the code says, with the text that they should have."""
    fresh = {folder / name: render() for name, render in PAGES.items()}
    if folder == DOCS:
        fresh |= {path: render() for path, render in FILES.items()}
    return {
        path: text
        for path, text in fresh.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def main(argv: Sequence[str] | None = None, folder: Path = DOCS) -> int:
    """Run one verb; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("verb", choices=("generate", "stale"))
    verb = parser.parse_args(argv).verb
    stale = stale_pages(folder)
    if verb == "stale":
        if stale:
            names = "\n".join(f"  {_name(path)}" for path in stale)
            print(f"Not what the code says now; run `make docs`:\n{names}")
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
        print(_name(path))
    print(f"pages changed: {len(stale)} of {len(PAGES) + len(FILES)}")
    return 0


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path in FILES else f"docs/{path.name}"


if __name__ == "__main__":
    sys.exit(main())
