"""What the rules look at and what they answer."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.workspace import FOREIGN, GENERATED, repository_files


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach of one rule."""

    path: str
    """Relative to the root."""
    line: int
    """From 1; 0 for the file as a whole."""
    rule: str
    text: str

    def __str__(self) -> str:
        """As one line that editors can jump to."""
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclass(frozen=True)
class Sources:
    """The files of one repository, read and parsed once."""

    root: Path
    files: tuple[str, ...]

    @classmethod
    def of(cls, root: Path) -> Sources:
        """What is or would be committed in a work tree."""
        return cls(root, tuple(repository_files(root)))

    def named(self, *endings: str) -> list[str]:
        """The files with one of these endings, generated and foreign ones left out."""
        return [
            name
            for name in self.files
            if name.endswith(endings) and not name.startswith((GENERATED, FOREIGN))
        ]

    @property
    def python(self) -> list[str]:
        """Python that people write, tests included."""
        return self.named(".py")

    @cache  # noqa: B019 - lives as long as the one run
    def text(self, name: str) -> str | None:
        """The text of a file; None where it is not text."""
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return None

    @cache  # noqa: B019 - lives as long as the one run
    def syntax(self, name: str) -> ast.Module:
        """The syntax tree of a Python file; an empty one where it cannot be parsed."""
        try:
            return ast.parse(self.text(name) or "", filename=name)
        except SyntaxError:
            return ast.Module(body=[], type_ignores=[])

    @cache  # noqa: B019 - lives as long as the one run
    def nodes(self, name: str) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree of a Python file, for rules that look at each."""
        return tuple(ast.walk(self.syntax(name)))


def is_test(name: str) -> bool:
    """Whether a file belongs to tests or measurements rather than to a package."""
    parts = name.split("/")
    return "tests" in parts or parts[0] in {"integration", "bench"}
