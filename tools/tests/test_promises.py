"""Pages name tests that are there; ``docs/promises.md`` names numbers that are the defaults."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

from ariane_broker.settings import BrokerSettings
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ProducerSettings, PushSettings
from tools.papers import Paper
from tools.workspace import ROOT, repository_files

PROMISES = Paper(ROOT, "docs/promises.md")
NAMING = [Paper(ROOT, f"docs/{page}.md") for page in ("promises", "admin", "conformance", "record")]
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
NUMBER = re.compile(r"^\| .+? \| (.+?) \| `(\w+)\.(\w+)` \|$", re.MULTILINE)

SERVICES = {"BrokerSettings": BrokerSettings, "NamesrvSettings": NamesrvSettings}
CLIENTS = {"ProducerSettings": ProducerSettings, "PushSettings": PushSettings}


def test_every_promise_has_a_test():
    tables, _, _ = PROMISES.text.partition("## Numbers")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", tables, re.MULTILINE)
    promises = [(promise, shown) for promise, shown in rows if promise != "Promise"]
    assert len(promises) > 40
    assert not [promise for promise, shown in promises if not TEST.search(shown)]


def test_named_tests_are_there():
    definition = re.compile(r"^(?:    )?(?:async )?def (test_\w+)\(", re.MULTILINE)
    there = Counter(
        (path.name, name)
        for path in map(ROOT.joinpath, repository_files())
        if path.name.startswith("test_") and path.suffix == ".py"
        for name in definition.findall(path.read_text())
    )
    named = set(TEST.findall("".join(page.text for page in NAMING)))
    assert {test: there[test] for test in named if there[test] != 1} == {}


def default_of(settings, name):
    if settings in SERVICES:
        return SERVICES[settings].model_fields[name].default
    fields = {field.name: field for field in dataclasses.fields(CLIENTS[settings])}
    return fields[name].default


def test_numbers_are_the_defaults():
    for text, settings, name in NUMBER.findall(PROMISES.text):
        default = default_of(settings, name)
        if default is True:
            assert text == "True", name
            continue
        defaults = default if isinstance(default, tuple) else (default,)
        assert [float(number) for number in re.findall(r"[\d.]+", text)] == list(defaults), name


def test_numbers_are_many():
    assert len(NUMBER.findall(PROMISES.text)) > 25
