"""Small wrong changes to a program: where they can be made, and the text with one of them made.

A mutation replaces a span of the source by other text, so that all other lines, and with them every
line number in a traceback, stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
ARITHMETIC: Final[dict[type[ast.operator], str]] = {ast.Add: "-", ast.Sub: "+"}
NOT_WORTH_IT: Final = ("log.", "_log.", "self._log.", "logger.", "super().")
"""Calls whose absence changes no promise: lines of the log, constructors of bases."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One wrong change."""

    line: int
    """Where it is, from 1."""
    begin: int
    """The first replaced character of the source, from 0."""
    end: int
    """The first character that is kept again."""
    text: str
    """What stands there instead."""
    said: str
    """The change in words, such as ``< becomes <=``."""

    def applied(self, source: str) -> str:
        """The source with this change made."""
        return source[: self.begin] + self.text + source[self.end :]


def mutations(source: str) -> list[Mutation]:
    """All mutations of a module, in the order of its lines."""
    return sorted(_Finder(source).found(), key=lambda each: (each.line, each.begin, each.text))


class _Finder:
    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def found(self) -> Iterator[Mutation]:
        yield from self._below(ast.parse(self._source))

    def _below(self, node: ast.AST) -> Iterator[Mutation]:
        for child in ast.iter_child_nodes(node):
            if _is_beside_the_work(node, child):
                continue
            yield from self._of(child)
            yield from self._below(child)

    def _of(self, node: ast.AST) -> Iterator[Mutation]:
        if isinstance(node, ast.stmt):
            yield from self._of_statement(node)
        elif isinstance(node, ast.expr):
            yield from self._of_expression(node)
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            test = node.test
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                yield self._instead(test, f"not ({self._text(test)})", "the condition is turned")

    def _of_statement(self, node: ast.stmt) -> Iterator[Mutation]:
        match node:
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign():
                if not self._text(node).removeprefix("await ").startswith(NOT_WORTH_IT):
                    yield self._instead(
                        node, "pass", f"{_first_line(self._text(node))} is left out"
                    )
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield self._instead(value, "None", "None is returned")
            case _:
                pass

    def _of_expression(self, node: ast.expr) -> Iterator[Mutation]:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                yield self._between(left, right, COMPARISONS[type(operator)])
            case ast.BoolOp(op=operator, values=[first, second, *_]):
                yield self._between(first, second, "or" if isinstance(operator, ast.And) else "and")
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
                yield self._between(left, right, ARITHMETIC[type(operator)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._instead(node, self._text(operand), "not is left out")
            case ast.Constant(value=bool(truth)):
                yield self._instead(node, str(not truth), f"{truth} becomes {not truth}")
            case ast.Constant(value=int(number)):
                yield self._instead(node, str(number + 1), f"{number} becomes {number + 1}")
            case _:
                pass

    def _between(self, left: ast.expr, right: ast.expr, new: str) -> Mutation:
        """Replace the operator between two operands; brackets around them stay."""
        begin, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[begin:end]
        old = gap.strip("()\\ \n\t").split("\n")[-1].strip("() ")
        at = begin + gap.find(old)
        line = self._source.count("\n", 0, at) + 1
        return Mutation(line, at, at + len(old), new, f"{old} becomes {new}")

    def _instead(self, node: ast.stmt | ast.expr, text: str, said: str) -> Mutation:
        return Mutation(node.lineno, *self._span(node), text, said)

    def _text(self, node: ast.stmt | ast.expr) -> str:
        begin, end = self._span(node)
        return self._source[begin:end]

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """Characters, not the bytes in which ``ast`` counts columns."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._at(node.lineno, node.col_offset), self._at(end_line, end_column)

    def _at(self, line: int, column_bytes: int) -> int:
        start = self._starts[line - 1]
        text = self._source[start : self._starts[line]]
        return start + len(text.encode()[:column_bytes].decode())


def _is_beside_the_work(parent: ast.AST, child: ast.AST) -> bool:
    """Whether a part of a program only describes it: types, docstrings, imports, ``__all__``."""
    match parent:
        case ast.AnnAssign() | ast.arg():
            return child is parent.annotation
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return child is parent.returns or child in parent.decorator_list
        case ast.ClassDef():
            return child in parent.decorator_list
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.JoinedStr():
            return True  # Before Python 3.12 parts of an f-string do not say where they are.
        case _:
            return isinstance(child, ast.Import | ast.ImportFrom | ast.Assert)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _first_line(text: str) -> str:
    first, *more = text.split("\n")
    return first + (" ..." if more else "")
