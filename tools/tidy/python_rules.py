"""Rules about Python that ruff does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tools.tidy.sources import Finding, Sources, is_test

LINES_MAX: Final = {".py": 500, ".proto": 600}
"""A service and its messages stand in one file of the contract."""
FUNCTION_LINES_MAX: Final = 70

VAGUE_WORDS: Final = ("Manager", "Helper", "Util", "Utils", "Common", "Impl", "Misc")
"""Say what it does instead: style guide, names to avoid."""


def long_files(sources: Sources) -> Iterator[Finding]:
    """A file is one noun; beyond the limit it is two."""
    for ending, lines_max in LINES_MAX.items():
        for name in sources.named(ending):
            count = len((sources.text(name) or "").splitlines())
            if count > lines_max:
                yield Finding(name, count, "long-file", f"{count} lines, at most {lines_max}")


def long_functions(sources: Sources) -> Iterator[Finding]:
    """A function fits on a screen. Docstrings are free, and a test may tell a long story."""
    for name in sources.python:
        if is_test(name):
            continue
        for node in sources.nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = _code_lines(node)
                if count > FUNCTION_LINES_MAX:
                    text = f"{node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"
                    yield Finding(name, node.lineno, "long-function", text)


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Physical lines of a function without its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def logic_in_init(sources: Sources) -> Iterator[Finding]:
    """``__init__.py`` re-exports: a docstring, imports, ``__all__``, and nothing to debug."""
    for name in sources.python:
        if not name.endswith("/__init__.py"):
            continue
        for node in sources.syntax(name).body:
            if not (_is_import(node) or _is_docstring(node) or _names_only(node)):
                text = "only imports, a docstring and __all__ belong here"
                yield Finding(name, node.lineno, "logic-in-init", text)


def _is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):  # What type checkers read, and what finds the same at run time.
        return all(_is_import(each) for each in (*node.body, *node.orelse))
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names_only(node: ast.stmt) -> bool:
    """``__all__ = [...]`` or ``__version__ = "..."``."""
    if not isinstance(node, ast.Assign):
        return False
    names = {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names <= {"__all__", "__version__"} and len(names) == len(node.targets)


def vague_names(sources: Sources) -> Iterator[Finding]:
    """A class or module is called after its job."""
    words = {word.lower() for word in VAGUE_WORDS}
    vague = re.compile(rf"\bclass\s+\w*(?:{'|'.join(VAGUE_WORDS)})\b")
    for name in sources.python:
        stem = name.rsplit("/", 1)[-1].removesuffix(".py")
        if words & set(stem.strip("_").split("_")):
            yield Finding(name, 0, "vague-name", f"module {stem}: say what it does")
        # Most files have no such name, and parsing them all would be most of the time of all rules.
        if not vague.search(sources.text(name) or ""):
            continue
        for node in sources.nodes(name):
            if isinstance(node, ast.ClassDef) and node.name.endswith(VAGUE_WORDS):
                text = f"class {node.name}: say what it does"
                yield Finding(name, node.lineno, "vague-name", text)
