"""Each import contract passes on the code as it is, and breaks when one bad import is added."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.workspace import ROOT, members

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

ARROWS = "Arrows point one way"
PURE_STORE = "The store knows no RPC"
ONLY_SPARK = "Only Spark imports pyspark"
ONE_STORE = "Only the broker opens a store"
NO_SDK = "Services never import the SDK"

BAD_IMPORTS = [
    (ARROWS, "ariane_broker", "ariane_namesrv"),
    (ARROWS, "ariane_namesrv", "ariane_spark"),
    (ARROWS, "ariane_servicekit", "ariane_filter"),
    (ARROWS, "ariane_sdk", "ariane_servicekit"),
    (ARROWS, "ariane_storage", "ariane_servicekit"),
    (ARROWS, "ariane_record", "ariane_storage"),
    (ARROWS, "ariane_broker", "pytest_ariane"),
    (PURE_STORE, "ariane_storage", "grpc"),
    (PURE_STORE, "ariane_storage", "asyncio"),
    (PURE_STORE, "ariane_record", "google.protobuf"),
    (PURE_STORE, "ariane_record", "ariane.common.v1.message_pb2"),
    (ONLY_SPARK, "ariane_sdk", "pyspark"),
    (ONLY_SPARK, "ariane_broker", "pyspark.sql"),
    (ONE_STORE, "ariane_namesrv", "ariane_storage"),
    (ONE_STORE, "ariane_admin", "ariane_storage"),
    (ONE_STORE, "ariane_spark", "ariane_storage"),
    (NO_SDK, "ariane_broker", "ariane_sdk"),
    (NO_SDK, "ariane_txn_checker", "ariane_sdk"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All packages of the workspace in one folder, with the contracts beside them."""
    folder = tmp_path_factory.mktemp("contracts")
    skip = shutil.ignore_patterns("__pycache__")
    for member in members():
        shutil.copytree(member.folder / "src", folder, ignore=skip, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def add_import(copy: Path) -> Iterator:
    """Add one import to a package for the time of a test."""
    written: dict[Path, str] = {}

    def add(package: str, imported: str) -> None:
        path = copy / package / "__init__.py"
        written[path] = path.read_text()
        path.write_text(f"{written[path]}\nimport {imported}\n")

    yield add
    for path, text in written.items():
        path.write_text(text)


def lint_imports(folder: Path) -> tuple[int, str]:
    """Judge the copy: exit status and what was said, on one line."""
    command = (str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_contracts_hold_as_things_are(copy):
    status, said = lint_imports(copy)
    assert status == 0, said
    assert f"{len(SETTINGS['contracts'])} kept, 0 broken" in said


@pytest.mark.parametrize(("contract", "package", "imported"), BAD_IMPORTS)
def test_one_bad_import_breaks_its_contract(copy, add_import, contract, package, imported):
    add_import(package, imported)
    status, said = lint_imports(copy)
    assert status != 0
    [name] = [c["name"] for c in SETTINGS["contracts"] if c["name"].startswith(contract)]
    assert f"{name} BROKEN" in said
    assert package in said.partition("Broken contracts")[2]


def test_every_contract_has_a_case():
    cases = {contract for contract, _, _ in BAD_IMPORTS}
    for contract in SETTINGS["contracts"]:
        assert any(contract["name"].startswith(case) for case in cases), contract["name"]


def test_every_package_is_under_contract():
    packages = {package for member in members() for package in member.packages}
    assert packages == set(SETTINGS["root_packages"])
