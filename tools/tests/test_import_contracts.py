"""Each import contract breaks when a bad import is added.

That they hold for the code as it is, ``make check`` asks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.workspace import ROOT, members

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

ARROWS = "Arrows point one way"
PURE_STORE = "Store, records, order and conditions know no RPC"
ONLY_SPARK = "Only Spark imports pyspark"
NO_TEST_TOOLS = "What people install knows no test tools"
ONE_STORE = "Only the broker opens a store"
NO_SDK = "Services never import the SDK"
CONNECTOR = "The connector is data source and sink"
SPARK_ROOMS = "Rooms of the connector"
SDK_ROOMS = "Rooms of the SDK"
PRODUCER_ROOMS = "Rooms of a producer"
CONSUMER_ROOMS = "Rooms of a consumer"
SDK_FACE = "Whoever builds on the SDK"
BROKER_ROOMS = "Rooms of the broker"
PROTOBUF = "In the broker rpc alone speaks protobuf"
BATCH_RECORDS = "What the log says of Spark's batches"
LOG = "The commit log knows nothing"
RECORD_VECTORS = "Vectors over records know bytes"
CHECKER_ROOMS = "In the checker rpc alone"
DERIVED = "Queues and index do not know"
FOLLOWING = "Following a primary"
COPYING = "Copying stands above recovery"
FILTER_ROOMS = "In the FilterServer the jail knows nobody"
GATEWAY_ROOMS = "In the gateway rpc alone"
GATEWAY_CASES = "Use cases of the gateway"
JAILED = "What runs jailed knows no RPC"
OPEN_STORE = "An open store does not know"
ADMIN_SERVICE = "The admin service knows nothing of the command line"
LIGHT_COMMANDS = "The command line starts without"
QUESTIONS = "Commands put an operator's questions"
SECURITY = "Who calls, certificates and rights"
RECEIVING = "In receiving, what is in hand"

TRANSPORT = "The transport knows nothing of the house"
TRANSPORT_ROOMS = "In the transport octets and rules know no loop"
PURE_PROTOCOL = "The protocol of the transport does no I/O"

BAD_IMPORTS = [
    (SECURITY, "ariane_servicekit.security.identity", "ariane_servicekit.security.gate.gate"),
    (SECURITY, "ariane_servicekit.security.rights", "ariane_servicekit.security.rules.rule_book"),
    (TRANSPORT, "ariane_wire", "ariane_sdk"),
    (TRANSPORT, "ariane_wire", "google.protobuf"),
    (TRANSPORT_ROOMS, "ariane_wire.client", "ariane_wire.server"),
    (TRANSPORT_ROOMS, "ariane_wire.protocol", "ariane_wire.transport"),
    (PURE_PROTOCOL, "ariane_wire.protocol", "asyncio"),
    (ARROWS, "ariane_broker", "ariane_namesrv"),
    (ARROWS, "ariane_namesrv", "ariane_spark"),
    (ARROWS, "ariane_servicekit", "ariane_filter"),
    (ARROWS, "ariane_sdk", "ariane_servicekit"),
    (ARROWS, "ariane_storage", "ariane_servicekit"),
    (ARROWS, "ariane_record", "ariane_storage"),
    (ARROWS, "ariane_record", "ariane_sql92"),
    (ARROWS, "ariane_ordering", "ariane_record"),
    (ARROWS, "ariane_sql92", "ariane_storage"),
    (ARROWS, "ariane_broker", "pytest_ariane"),
    (PURE_STORE, "ariane_storage", "grpc"),
    (PURE_STORE, "ariane_storage", "asyncio"),
    (PURE_STORE, "ariane_record", "google.protobuf"),
    (PURE_STORE, "ariane_sql92", "asyncio"),
    (PURE_STORE, "ariane_ordering", "google.protobuf"),
    (PURE_STORE, "ariane_record", "ariane.common.v1.message_pb2"),
    (ONLY_SPARK, "ariane_sdk", "pyspark"),
    (ONLY_SPARK, "ariane_broker", "pyspark.sql"),
    (NO_TEST_TOOLS, "ariane_servicekit", "ariane_testkit"),
    (ONE_STORE, "ariane_namesrv", "ariane_storage"),
    (ONE_STORE, "ariane_admin", "ariane_storage"),
    (ONE_STORE, "ariane_spark", "ariane_storage"),
    (NO_SDK, "ariane_broker", "ariane_sdk"),
    (NO_SDK, "ariane_txn_checker", "ariane_sdk"),
    (ARROWS, "ariane_spark", "ariane_pipelines"),
    (ONE_STORE, "ariane_pipelines", "ariane_storage"),
    (CONNECTOR, "ariane_spark", "click"),
    (CONNECTOR, "pyspark_ariane", "ariane_pipelines"),
    (SPARK_ROOMS, "ariane_spark.source", "ariane_spark.sink"),
    (SPARK_ROOMS, "ariane_spark.options", "ariane_spark.calls"),
    (SDK_ROOMS, "ariane_sdk.producer", "ariane_sdk.consumer"),
    (SDK_ROOMS, "ariane_sdk.net", "ariane_sdk.client"),
    (SDK_ROOMS, "ariane_sdk.checks", "ariane_sdk.net"),
    (PRODUCER_ROOMS, "ariane_sdk.producer.sending", "ariane_sdk.producer.intake"),
    (PRODUCER_ROOMS, "ariane_sdk.producer.accumulator", "ariane_sdk.producer.sending"),
    (CONSUMER_ROOMS, "ariane_sdk.consumer.delivery", "ariane_sdk.consumer.pulling"),
    (SDK_FACE, "ariane_spark", "ariane_sdk.net"),
    (SDK_FACE, "ariane_admin", "ariane_sdk.checks.limits"),
    (LOG, "ariane_storage.log", "ariane_storage.queues"),
    (RECORD_VECTORS, "ariane_storage.log.records", "ariane_storage.log.segment"),
    (CHECKER_ROOMS, "ariane_txn_checker.watching", "ariane_txn_checker.rpc"),
    (DERIVED, "ariane_storage.index", "ariane_storage.writing"),
    (OPEN_STORE, "ariane_storage.recovery", "ariane_storage.offline"),
    (FOLLOWING, "ariane_broker.replication", "ariane_broker.following"),
    (PROTOBUF, "ariane_broker.replication", "ariane.replication.v1.replica_pb2"),
    (COPYING, "ariane_storage.keeping", "ariane_storage.copying"),
    (
        PROTOBUF,
        "ariane_broker.spark_batches",
        "ariane.broker.v1.transaction_service_pb2",
    ),
    (PROTOBUF, "ariane_broker.read", "ariane_broker.rpc"),
    (FILTER_ROOMS, "ariane_filter.catalogue", "ariane_filter.running"),
    (FILTER_ROOMS, "ariane_filter.pulling", "ariane_filter.rpc"),
    (GATEWAY_ROOMS, "ariane_gateway.sending", "ariane_gateway.receiving"),
    (GATEWAY_ROOMS, "ariane_gateway.clients", "ariane_gateway.rpc"),
    (GATEWAY_CASES, "ariane_gateway.sending", "apache.rocketmq.v2.definition_pb2"),
    (JAILED, "ariane_filter.jail", "grpc"),
    (JAILED, "ariane_filter.jail.worker", "ariane.filter.v1.filter_pb2"),
    (BROKER_ROOMS, "ariane_broker.log", "ariane_broker.append"),
    (BROKER_ROOMS, "ariane_broker.groups", "ariane_broker.clients"),
    (BROKER_ROOMS, "ariane_broker.topics", "ariane_broker.read"),
    (ADMIN_SERVICE, "ariane_admin.service", "ariane_admin.commands"),
    (ADMIN_SERVICE, "ariane_admin.console", "click"),
    (LIGHT_COMMANDS, "ariane_admin.commands", "ariane_admin.service"),
    (LIGHT_COMMANDS, "ariane_admin.asking", "starlette"),
    (LIGHT_COMMANDS, "ariane_admin.servicers", "ariane_admin.audit"),
    (LIGHT_COMMANDS, "ariane_admin.commands", "ariane_admin.alerts"),
    (QUESTIONS, "ariane_admin.commands", "ariane.broker.v1.broker_service_pb2_grpc"),
    (PROTOBUF, "ariane_broker.receive", "ariane.broker.v1.receive_service_pb2"),
    (PROTOBUF, "ariane_broker.transactions", "ariane.common.v1.message_pb2"),
    (BATCH_RECORDS, "ariane_broker.spark_batches.records", "ariane_broker.spark_batches.sinks"),
    (RECEIVING, "ariane_broker.receive.in_hand", "ariane_broker.receive.handing_out"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """All packages of the workspace in one folder, with the contracts beside them."""
    skip = shutil.ignore_patterns("__pycache__")
    for member in members():
        shutil.copytree(member.folder / "src", tmp_path, ignore=skip, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(folder: Path) -> tuple[int, str]:
    """Judge the copy: exit status and what was said, on one line."""
    command = (str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_each_bad_import_breaks_its_contract(copy):
    """All in one run, because it takes seconds: the report names each under its contract."""
    for _, package, imported in BAD_IMPORTS:
        with (copy / package.replace(".", "/") / "__init__.py").open("a") as file:
            file.write(f"\nimport {imported}\n")
    status, said = lint_imports(copy)
    assert status != 0
    names = "|".join(re.escape(contract["name"]) for contract in SETTINGS["contracts"])
    _, *parts = re.split(f"({names}) ---", said.partition("Broken contracts")[2])
    told = dict(zip(parts[::2], parts[1::2], strict=True))
    unfound = [
        (contract, package, imported)
        for contract, package, imported in BAD_IMPORTS
        for name, report in told.items()
        if name.startswith(contract)
        # Of packages that are not ours, the report says the first name only.
        if not re.search(rf"- {package} -> ({imported}|{imported.partition('.')[0]}) \(", report)
    ]
    assert unfound == []
    assert len(told) == len({contract for contract, _, _ in BAD_IMPORTS})


def test_every_contract_has_a_case():
    cases = {contract for contract, _, _ in BAD_IMPORTS}
    for contract in SETTINGS["contracts"]:
        assert any(contract["name"].startswith(case) for case in cases), contract["name"]


def test_every_package_is_under_contract():
    packages = {package for member in members() for package in member.packages}
    assert packages == set(SETTINGS["root_packages"])
