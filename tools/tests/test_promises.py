"""``docs/promises.md`` names tests that are there, and numbers that are the defaults."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from pathlib import PurePosixPath

import pytest

from ariane_broker.settings import BrokerSettings
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ConsumerSettings, ProducerSettings
from tools.papers import Paper
from tools.workspace import ROOT, repository_files

PROMISES = Paper(ROOT, "docs/promises.md")
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
NUMBER = re.compile(r"^\| .+? \| (.+?) \| `(\w+)\.(\w+)` \|$", re.MULTILINE)

SERVICES = {"BrokerSettings": BrokerSettings, "NamesrvSettings": NamesrvSettings}
CLIENTS = {"ConsumerSettings": ConsumerSettings, "ProducerSettings": ProducerSettings}


@pytest.fixture(scope="module")
def test_files():
    files = defaultdict(list)
    for name in repository_files():
        files[PurePosixPath(name).name].append(ROOT / name)
    return files


def test_every_promise_has_a_test():
    tables, _, _ = PROMISES.text.partition("## Numbers")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", tables, re.MULTILINE)
    promises = [(promise, shown) for promise, shown in rows if promise != "Promise"]
    assert len(promises) > 40
    assert not [promise for promise, shown in promises if not TEST.search(shown)]


@pytest.mark.parametrize(("file", "name"), sorted(set(TEST.findall(PROMISES.text))))
def test_named_tests_are_there(test_files, file, name):
    definition = re.compile(rf"^(    )?(async )?def {name}\(", re.MULTILINE)
    found = [path for path in test_files[file] if definition.search(path.read_text())]
    assert len(found) == 1, found


@pytest.mark.parametrize(("text", "settings", "name"), NUMBER.findall(PROMISES.text))
def test_numbers_are_the_defaults(text, settings, name):
    if settings in SERVICES:
        default = SERVICES[settings].model_fields[name].default
    else:
        [default] = (
            field.default for field in dataclasses.fields(CLIENTS[settings]) if field.name == name
        )
    if default is True:
        assert text == "True"
        return
    defaults = default if isinstance(default, tuple) else (default,)
    assert [float(number) for number in re.findall(r"[\d.]+", text)] == list(defaults)


def test_numbers_are_many():
    assert len(NUMBER.findall(PROMISES.text)) > 25
