"""The pages of the site: each Markdown file of the repository, under a shorter name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

from tools.papers import Paper
from tools.workspace import ROOT, repository_files

INDEX: Final = "docs/README.md"
"""The page that the site begins with; its tables are the parts of the navigation."""

_PICTURES: Final = "docs/pictures/"
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_ELSEWHERE: Final = re.compile(r"[a-z]+:")
_PART: Final = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)


class SitePages:
    """All pages, how they hang together, and their text as the site has it.

    Args:
        root: The repository.
        names: Its pages and pictures; default: those that are committed.
    """

    def __init__(self, root: Path = ROOT, names: Iterable[str] | None = None) -> None:
        files = repository_files(root) if names is None else names
        self._root = root
        self.names: Final = {name: site_name(name) for name in files if name.endswith(".md")}
        """Name in the repository, and name on the site without its ending."""

    def text(self, name: str) -> str:
        """The text of a page: links led to the site, and its part of the navigation at its end."""
        text = with_site_links(Paper(self._root, name).text, name, self.names)
        return text + "".join(toctree(*part) for part in self.navigation(name) if part[1])

    def navigation(self, name: str) -> list[tuple[str, list[str]]]:
        """The parts of the navigation that hang on a page: a caption, and names on the site."""
        if name != INDEX:
            return [("", [self.names[each] for each in self._children(name)])]
        text = Paper(self._root, INDEX).text
        titles = _PART.split(text)[1:]
        parts = [
            (title, [self.names[each] for each in self._links(INDEX, table)])
            for title, table in zip(titles[::2], titles[1::2], strict=True)
        ]
        api = ("Python API", ["api/index"])
        rest = [self.names[name] for name in self._children(None)]
        return [parts[0], api, *parts[1:], ("Folders", rest)]

    def _links(self, name: str, text: str) -> list[str]:
        """The pages that a text links to, each once, in its order."""
        folder = PurePosixPath(name).parent
        to = [_joined(folder, link.partition("#")[0]) for _, _, link in _LINK.findall(text)]
        return [each for each in dict.fromkeys(to) if each in self.names and each != name]

    def _parent(self, name: str) -> str | None:
        """The README of the nearest folder above a page; None where that is the root's."""
        folder = PurePosixPath(name).parent
        if PurePosixPath(name).name == "README.md":
            folder = folder.parent
        for above in (folder, *folder.parents):
            readme = str(above / "README.md")
            if readme in self.names and readme not in ("README.md", INDEX):
                return readme
        return None

    def _children(self, parent: str | None) -> list[str]:
        """Pages below a page that the index does not name, in the order in which it does."""
        top = set(self._links(INDEX, Paper(self._root, INDEX).text)) | {INDEX}
        below = [name for name in self.names if name not in top and self._parent(name) == parent]
        if parent is None:
            return below
        order = self._links(parent, Paper(self._root, parent).text)
        return sorted(below, key=lambda each: order.index(each) if each in order else len(order))


def site_name(name: str) -> str:
    """Where a page of the repository lies on the site, whose root is ``docs/``.

    The README of a folder is its index, and that of the repository is called ``overview``.
    """
    path = PurePosixPath(name).with_suffix("")
    if path.name == "README":
        path = path.with_name("index" if path.parent.name else "overview")
    return str(path.relative_to("docs") if path.parts[0] == "docs" else path).lower()


def with_site_links(text: str, name: str, pages: Mapping[str, str]) -> str:
    """A page with its links led to the site.

    Of a link to a file that is no page, such as a source, only the text is kept: the site does not
    know where the repository is read.

    Args:
        text: Markdown.
        name: Of the page in the repository.
        pages: Names in the repository, and on the site.
    """
    folder = PurePosixPath(name).parent
    here = PurePosixPath(pages[name]).parent

    def led(found: re.Match[str]) -> str:
        mark, shown, link = found.groups()
        target, sign, anchor = link.partition("#")
        if not target or _ELSEWHERE.match(link):
            return found[0]
        path = _joined(folder, target)
        if path in pages:
            to = f"{pages[path]}.md"
        elif path.startswith(_PICTURES):
            to = path.removeprefix("docs/")
        else:
            return shown
        return f"{mark}[{shown}]({relpath(to, here)}{sign}{anchor})"

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)


def toctree(caption: str, pages: Iterable[str]) -> str:
    """A part of the navigation, which the page itself does not show."""
    options = [":hidden:", ":titlesonly:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""])


def _joined(folder: PurePosixPath, target: str) -> str:
    return normpath(str(folder / target))
