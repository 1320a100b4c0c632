"""What a published member needs comes with it, told from its code and what its needs need.

``integration/packages`` installs the wheels in empty environments; this is its quick twin.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import distribution, packages_distributions

import pytest
from packaging.requirements import Requirement

from tools.workspace import Member, members

PUBLISHED = [member for member in members() if not member.is_private]
OURS = {member.project["name"]: member for member in members()}
HOMES = {
    **packages_distributions(),
    **{package: [name] for name, member in OURS.items() for package in member.packages},
}
"""By import name: the distributions that bring it."""


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


@cache
def needs(name: str, extras: frozenset[str]) -> frozenset[str]:
    """What an installation of a distribution brings, itself included."""
    if name in OURS:
        project = OURS[name].project
        lines = list(project.get("dependencies", []))
        for extra in extras:
            lines += project["optional-dependencies"][extra]
    else:
        lines = distribution(name).requires or []
    found = {name}
    for line in lines:
        requirement = Requirement(line)
        asked = [{"extra": extra} for extra in ("", *extras)]
        if not requirement.marker or any(map(requirement.marker.evaluate, asked)):
            found |= needs(name_of(line), frozenset(requirement.extras))
    return frozenset(found)


def imported(text: str) -> Iterator[str]:
    """The top names that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def unmet(member: Member) -> dict[str, str]:
    """The imports that an installation with all extras would fail, and a module of each."""
    extras = frozenset(member.project.get("optional-dependencies", {}))
    installed = needs(member.project["name"], extras)
    return {
        top: path.name
        for path in (member.folder / "src").rglob("*.py")
        for top in imported(path.read_text(encoding="utf-8"))
        if top not in sys.stdlib_module_names
        and not {name_of(home) for home in HOMES.get(top, ())} & installed
    }


@pytest.mark.parametrize("member", PUBLISHED, ids=lambda member: member.project["name"])
def test_what_a_member_imports_comes_with_it(member):
    assert unmet(member) == {}


@pytest.mark.parametrize("service", ["ariane-namesrv", "ariane-txn-checker"])
def test_services_that_read_no_records_carry_nothing_for_them(service):
    brought = needs(service, frozenset())
    assert {"ariane-servicekit", "grpcio"} < brought
    assert brought & {"ariane-sdk", "isal", "numpy"} == set()


def test_the_broker_carries_no_terminal():
    brought = needs("ariane-broker", frozenset())
    assert {"ariane-storage", "numpy", "psycopg-binary"} < brought
    assert brought & {"ariane-admin", "ariane-sdk", "click", "pygments", "pyyaml", "rich"} == set()


def test_an_import_that_nothing_brings_is_found(tmp_path):
    member = Member(tmp_path, {"name": "ariane-storage", "dependencies": ["numpy"]})
    module = tmp_path / "src" / "mine" / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text("import os, numpy\ndef later():\n    from pyspark.sql import functions\n")
    assert unmet(member) == {"pyspark": "module.py"}


@pytest.mark.parametrize("member", PUBLISHED, ids=lambda member: member.project["name"])
def test_its_commands_are_there(member):
    for place in member.project.get("scripts", {}).values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))
