"""What the papers say, taken apart so that tests can hold it against the work tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELLS: Final = ("sh", "bash", "console", "shell")
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ELSEWHERE: Final = re.compile(r"[a-z]+:")
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Paper:
    """One Markdown file."""

    root: Path
    """The repository."""
    name: str
    """Relative to it."""

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.root / self.name

    @property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """Without blocks of code and comments."""
        return _COMMENT.sub("", _FENCE.sub("", self.text))

    def blocks(self, language: str) -> list[str]:
        """Its blocks of code in one language, as they are typed."""
        return [body for word, body in _FENCE.findall(self.text) if word == language]

    def words_of_code(self) -> list[str]:
        """What is set as code within the prose."""
        return _CODE.findall(self.prose)

    def links(self) -> list[str]:
        """Where it points to within the repository, as written."""
        return [link for link in _LINK.findall(self.prose) if not _ELSEWHERE.match(link)]

    def anchors(self) -> set[str]:
        """What a link may name behind ``#``: headings, as they are shown on the web."""
        titles = _HEADING.findall(_FENCE.sub("", self.text))
        return {anchor_of(title) for title in titles}

    def broken_links(self) -> list[str]:
        """Links that lead to no file, out of the repository, or to no heading."""
        return [link for link in self.links() if not self._leads_somewhere(link)]

    def _leads_somewhere(self, link: str) -> bool:
        target, _, anchor = link.partition("#")
        path = (self.path.parent / target).resolve() if target else self.path
        if not path.exists() or self.root not in path.parents:
            return False
        name = path.relative_to(self.root).as_posix()
        return not anchor or anchor in Paper(self.root, name).anchors()


def shell_lines_of(paper: Paper, program: str) -> list[str]:
    """Lines of shell of a page that name a program; those that end in a backslash go on.

    Of a block of ``console`` only what follows its prompt: the rest is what commands wrote.
    """
    lines = []
    for language, block in _FENCE.findall(paper.text):
        if language not in _SHELLS:
            continue
        for line in map(str.strip, block.replace("\\\n", " ").splitlines()):
            typed = line.removeprefix("$ ") if language == "console" else line
            if (language != "console" or typed != line) and re.search(rf"\b{program} ", typed):
                lines.append(typed)
    return lines


def anchor_of(title: str) -> str:
    """The anchor of a heading: lower case, marks dropped, spaces as hyphens."""
    return _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")
