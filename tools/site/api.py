"""The reference of the Python API: every public name with its docstring."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from sphinx.pycode import ModuleAnalyzer

from tools.site.api_themes import PAGES, ApiPage

SDK: Final = "ariane_sdk"

_MEMBERS: Final = {
    "class": (":members:", ":inherited-members: object,Exception,int,str,tuple,Enum,IntEnum"),
    "exception": (":members:", ":show-inheritance:"),
    "function": (),
}


def public_names(module_name: str) -> list[str]:
    """The names that a module offers: those that it lists, or else those that it defines."""
    module = import_module(module_name)
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    told = ModuleAnalyzer.for_module(module_name).find_attr_docs()
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (getattr(value, "__module__", None) == module_name or ("", name) in told)
    ]


def shown_names(page: ApiPage) -> list[str]:
    """The full names that a page shows, in its order."""
    if page.names:
        return [f"{page.module}.{name}" for name in page.names]
    taken = {
        name for other in PAGES.values() if other.module == page.module for name in other.names
    }
    return [
        f"{page.module}.{name}"
        for name in public_names(page.module)
        if name not in taken and not _is_of_sdk(page.module, name)
    ]


def _is_of_sdk(module_name: str, name: str) -> bool:
    """Whether a module below the SDK only offers again what the SDK itself does."""
    above = getattr(import_module(SDK), name, None)
    return module_name != SDK and above is getattr(import_module(module_name), name)


def docstring(full_name: str) -> str:
    """What is said of a name where it is defined; empty where nothing is."""
    value, home, name = _found(full_name)
    if inspect.isclass(value) or inspect.isroutine(value):
        own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        return inspect.cleandoc(own or "")
    return "\n".join(ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), ())).strip()


def render(page: ApiPage) -> str:
    """A page of the reference, in reStructuredText."""
    head = [page.title, "=" * len(page.title), "", page.opening, ""]
    return "\n".join([*head, *("\n".join(_directive(name)) for name in shown_names(page))])


def render_index() -> str:
    """The page above those of the reference."""
    title = "Python API"
    pages = (f"   {key}" for key in PAGES)
    opening = (
        "What ``ariane_sdk`` and its public modules offer, by theme. :doc:`/sdk/python/index` shows"
        " how it is used; :ref:`all names <genindex>` in one list."
    )
    return "\n".join([title, "=" * len(title), "", opening, "", ".. toctree::", "", *pages, ""])


def home_of(type_name: str) -> str | None:
    """The public name under which the reference shows a type that a signature names.

    Args:
        type_name: As Sphinx found it: with its module, or alone.
    """
    return _places().get(type_name) or _places().get(type_name.rpartition(".")[2])


@cache
def _places() -> dict[str, str]:
    """Full names by what a signature may call them: alone, and with the module of their home."""
    places: dict[str, str] = {}
    for page in PAGES.values():
        for full_name in shown_names(page):
            _, home, name = _found(full_name)
            places[f"{home}.{name}"] = full_name
            places.setdefault(name, full_name)
    return places


def _directive(full_name: str) -> Iterator[str]:
    value, home, name = _found(full_name)
    if inspect.isclass(value) or inspect.isroutine(value):
        kind = "function"
        if inspect.isclass(value):
            kind = "exception" if issubclass(value, BaseException) else "class"
        yield f".. auto{kind}:: {full_name}"
        yield from (f"   {option}" for option in _MEMBERS[kind])
    else:
        yield f".. py:data:: {full_name}"
        alias = _alias(home, name)
        yield from (f"   :value: {alias}",) if alias else ()
        yield ""
        yield from (f"   {line}" for line in docstring(full_name).splitlines())
    yield ""


def _found(full_name: str) -> tuple[Any, str, str]:
    """The object of a name, the module that defines it, and its name there."""
    module_name, name = full_name.rsplit(".", 1)
    value = getattr(import_module(module_name), name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return value, value.__module__, value.__name__
    return value, _imported(module_name).get(name, module_name), name


@cache
def _imported(module_name: str) -> dict[str, str]:
    """Where a module has its names from."""
    tree = ast.parse(ModuleAnalyzer.for_module(module_name).code)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    return {
        alias.asname or alias.name: str(node.module) for node in imports for alias in node.names
    }


def _alias(home: str, name: str) -> str:
    """What a type alias stands for, as it is written; empty for other values."""
    tree = ast.parse(ModuleAnalyzer.for_module(home).code)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value:
            return ast.unparse(node.value) if "TypeAlias" in ast.unparse(node.annotation) else ""
    return ""
