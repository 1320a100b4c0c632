"""Promises of the contract that no linter knows: access rules and error reasons."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import MethodDescriptor

import ariane
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.security.rules.method_rules import access_rule
from tools import protos
from tools.tidy.sources import Sources, is_test
from tools.workspace import ROOT

RAISING = ("services/", "servicekit/", "sdk/python/src/ariane_sdk/errors/")
"""Who raises reasons: services, and the SDK for the one that admin hands on."""

REASON_TABLES = {"error_table.py", "error_statuses.py", "refusal_kinds.py"}
"""Files that list every reason, and raise none."""


def all_methods() -> list[MethodDescriptor]:
    """Every method of every service."""
    names = [each.name for each in pkgutil.walk_packages(ariane.__path__, "ariane.")]
    modules = [importlib.import_module(name) for name in names if name.endswith("_pb2")]
    services = [s for m in modules for s in m.DESCRIPTOR.services_by_name.values()]
    return [method for service in services for method in service.methods]


METHODS = all_methods()


def test_there_are_methods_of_every_area():
    areas = {method.full_name.split(".")[1] for method in METHODS}
    expected = {"admin", "broker", "common", "filter", "namesrv", "replication", "transaction"}
    assert areas == expected


def test_the_readme_of_the_contract_has_each_service_and_no_other():
    row = re.compile(r"\|([^|]*)\|([^|]*)\|[^|]*\|[^|]*\|")
    named, area = set(), ""
    for line in (ROOT / "protos/README.md").read_text().splitlines():
        if match := row.fullmatch(line):
            area = match[1].strip(" `") or area
            services = match[2].partition(";")[0]
            named |= {f"ariane.{area}.v1.{name}" for name in re.findall(r"`(\w+)`", services)}
    assert named == {method.containing_service.full_name for method in METHODS}


def test_every_method_has_an_access_rule():
    assert len(METHODS) > 100
    for method in METHODS:
        assert access_rule(method).requirements, method.full_name


def test_every_proto_names_its_packages_in_other_languages():
    listed = [name for _, name, _ in pkgutil.walk_packages(ariane.__path__, "ariane.")]
    files = [importlib.import_module(name).DESCRIPTOR for name in listed if name.endswith("_pb2")]
    assert len(files) > 40
    for file in files:
        options, area = file.GetOptions(), file.package.split(".")[1]
        assert options.go_package == f"ariane.mq/go/arianepb/{area}/v1;{area}v1", file.name
        assert options.java_package == f"mq.ariane.{area}.v1", file.name
        assert options.java_multiple_files, file.name


def test_lists_are_paged():
    lists = [
        method
        for method in METHODS
        # Bounded by the queue count of the topic, by that of the broker, and by admin's settings.
        if method.name.startswith("List")
        and method.name not in {"ListQueueBounds", "ListReceiving", "ListAlertRules"}
    ]
    assert len(lists) > 20
    for method in lists:
        repeated = [field for field in method.output_type.fields if field.is_repeated]
        assert repeated[0].number == 1, method.full_name
        assert {"page_size", "page_token"} <= set(method.input_type.fields_by_name), method
        assert "next_page_token" in method.output_type.fields_by_name, method.full_name


@pytest.fixture(scope="module")
def files() -> list[descriptor_pb2.FileDescriptorProto]:
    """The protos as they are now, with their comments."""
    with protos.image(source_comments=True) as path:
        return parse(path.read_bytes())


def parse(image: bytes) -> list[descriptor_pb2.FileDescriptorProto]:
    """Our files of a descriptor set."""
    files = descriptor_pb2.FileDescriptorSet.FromString(image).file
    return [file for file in files if file.name.startswith("ariane/")]


def comments(file: descriptor_pb2.FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """The leading comment of every element, by its path in the file's descriptor."""
    return {tuple(at.path): at.leading_comments for at in file.source_code_info.location}


def reasons(files: list[descriptor_pb2.FileDescriptorProto]) -> dict[str, int]:
    """The error reasons of a descriptor set by name."""
    [file] = [file for file in files if file.name.endswith("/error_reason.proto")]
    return {value.name: value.number for value in file.enum_type[0].value}


def test_error_reasons_are_append_only(files):
    before, now = reasons(parse(protos.BASELINE.read_bytes())), reasons(files)
    assert before.items() <= now.items()


def test_every_reason_is_raised_somewhere():
    sources = Sources.of(ROOT)
    raised: set[str] = set()
    for name in sources.python:
        if name.startswith(RAISING) and not is_test(name) and Path(name).name not in REASON_TABLES:
            raised |= set(re.findall(r"[A-Z][A-Z_]+", sources.text(name) or ""))
    known = {name.removeprefix("ERROR_REASON_") for name, _ in ErrorReason.items()} - {
        "UNSPECIFIED"
    }
    left = {reason for reason in known if not raised & {reason, f"ERROR_REASON_{reason}"}}
    assert left == set()


def test_paged_methods_cite_the_error_of_a_bad_page_token(files):
    for file in files:
        said = comments(file)
        paged = {m.name for m in file.message_type if any(f.name == "page_token" for f in m.field)}
        for place, service in enumerate(file.service):
            for position, method in enumerate(service.method):
                if method.input_type.rpartition(".")[2] in paged:
                    assert "PAGE_TOKEN_INVALID" in said[6, place, 2, position], method.name


def test_methods_cite_reasons_that_exist(files):
    known = {name.removeprefix("ERROR_REASON_") for name, _ in ErrorReason.items()}
    enums = {value.name for f in files for e in f.enum_type for value in e.value}
    cited = 0
    for file in files:
        for path, comment in comments(file).items():
            if len(path) == 4 and path[0] == 6:
                words = set(re.findall(r"\b[A-Z]+(?:_[A-Z0-9]+)+\b", comment)) - enums
                assert words <= known, f"{file.name}: {comment}"
                cited += len(words)
    assert cited > 100


def test_how_often_a_message_was_delivered_has_one_name(files):
    messages = [(file.name, message) for file in files for message in file.message_type]
    counts = {
        f"{name}: {message.name}.{field.name}"
        for name, message in messages
        for field in message.field
        if field.type == field.TYPE_INT32 and re.search("attempt|tries|deliver", field.name)
    }
    wrong = {each for each in counts if not re.search(r"attempts(_max)?$", each)}
    assert (wrong, len(counts) > 5) == (set(), True)
