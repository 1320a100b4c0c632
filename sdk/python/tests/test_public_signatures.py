"""Every type that a public signature names has a public name; read from the source."""

import ast
import dataclasses
import importlib
import inspect
from pathlib import Path

import pytest

import ariane_sdk
from ariane_sdk import errors, redis, sql, sync

OWN = "ariane"
"""How packages of ours begin. Their names in a signature are to be found in the public modules."""

MADE_FOR_APPLICATIONS = {
    "LoopThread",
    "MessageView",
    "SendOptions",
    "TransactionCalls",
    "_transaction_block",
}
"""Only in constructors of what applications get and never make: received messages, transactions."""


def named_in_signatures(public):
    """Names of our own that signatures of a public class or function use, by the signature."""
    if not (inspect.isclass(public) or inspect.isfunction(public)):
        return {}  # An alias or a constant.
    used = {}
    for source in _sources(public):
        module = importlib.import_module(source.__module__)
        own = _own_names(ast.parse(Path(module.__file__).read_text()))
        for signature, annotation in _annotations(_node_of(source)):
            names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
            for name in names & own:
                used.setdefault(name, f"{public.__module__}.{public.__qualname__}.{signature}")
    return used


def _sources(public):
    if inspect.isfunction(public):
        return [public]
    return [base for base in public.__mro__ if base.__module__.startswith("ariane_sdk")]


def _node_of(source):
    tree = ast.parse(Path(inspect.getsourcefile(source)).read_text())
    return next(node for node in tree.body if getattr(node, "name", None) == source.__name__)


def _own_names(tree):
    """What a module defines at its top, and imports from packages of ours."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OWN):
            names.update(alias.asname or alias.name for alias in node.names)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and not _makes_type_variable(node.value):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def _makes_type_variable(value):
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("TypeVar", "ParamSpec")


def _annotations(node):
    """Signature and annotation of each parameter, result and field that is public."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [star for star in (arguments.vararg, arguments.kwarg) if star]
        yield from (
            (f"{node.name}({each.arg})", each.annotation) for each in every if each.annotation
        )
        if node.returns:
            yield f"{node.name}() ->", node.returns
    elif isinstance(node, ast.ClassDef):
        for part in node.body:
            name = getattr(part, "name", "")
            if name == "__init__" or (name and not name.startswith("_")):
                yield from _annotations(part)
            elif isinstance(part, ast.AnnAssign) and not part.target.id.startswith("_"):
                yield part.target.id, part.annotation


@pytest.mark.parametrize(
    "module", [ariane_sdk, sync, sql, redis, errors], ids=lambda module: module.__name__
)
def test_every_type_of_a_public_signature_has_a_public_name(module):
    known = {*ariane_sdk.__all__, *module.__dict__, *vars(errors)} | MADE_FOR_APPLICATIONS
    public = getattr(module, "__all__", None) or vars(module)
    missing = {}
    for name in public:
        missing |= named_in_signatures(getattr(module, name))
    assert {name: where for name, where in missing.items() if name not in known} == {}


def test_settings_and_values_of_several_kinds_have_a_public_name_in_common():
    bases = {
        base.__name__
        for public in (getattr(ariane_sdk, name) for name in ariane_sdk.__all__)
        if inspect.isclass(public)
        for base in public.__bases__
        if dataclasses.is_dataclass(base)
    }
    assert "ConsumerSettings" in bases
    assert bases <= {*ariane_sdk.__all__, *MADE_FOR_APPLICATIONS}


def test_the_walk_finds_types_in_parameters_results_and_fields():
    assert {"MessageQueue", "Message", "SendResult"} <= named_in_signatures(
        ariane_sdk.Producer
    ).keys()
    assert "StartPosition" in named_in_signatures(sync.PushConsumer)
    assert "MessageQueue" in named_in_signatures(ariane_sdk.SendResult)
