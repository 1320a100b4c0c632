"""The site of the documents: ``make site``, without a network.

    python -m tools.site                # into out/site
    python -m tools.site --out FOLDER

Every Markdown file of the repository is a page, and every public name of the SDK stands in the
reference. A link that leads nowhere, a page that nothing leads to, a name without a docstring, or
anything that a reader's browser would fetch from elsewhere fails the build.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sphinx.cmd.build import build_main

from tools.site import api
from tools.site.api_themes import PAGES
from tools.site.judge import complaints
from tools.site.pages import SitePages
from tools.workspace import ROOT

HERE: Final = Path(__file__).parent
SOURCE: Final = ROOT / ".cache" / "site"


def main(argv: Sequence[str] | None = None) -> int:
    """Build the site; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "site")
    out: Path = parser.parse_args(argv).out
    begun = time.monotonic()
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    lay_out(SOURCE)
    strict = ("--fail-on-warning", "--keep-going", "--fresh-env", "--quiet", "--jobs", "auto")
    folders = (str(SOURCE), str(out), "--doctree-dir", str(SOURCE / ".doctrees"))
    status = build_main([*strict, "--conf-dir", str(HERE), *folders])
    if status == 0:
        found = complaints(out, [name for page in PAGES.values() for name in api.shown_names(page)])
        print("\n".join(found), end="\n" if found else "", file=sys.stderr)
        status = 1 if found else 0
    if status == 0:
        count = sum(1 for _ in out.rglob("*.html"))
        print(f"{count} pages in {out / 'index.html'} ({time.monotonic() - begun:.0f} s)")
    return status


def lay_out(folder: Path) -> None:
    """Write what Sphinx reads: the pages under their names on the site, their pictures, the API."""
    pages = SitePages()
    for name, site_name in pages.names.items():
        _write(folder / f"{site_name}.md", pages.text(name))
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    _write(folder / "api" / "index.rst", api.render_index())
    for key, page in PAGES.items():
        _write(folder / "api" / f"{key}.rst", api.render(page))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
