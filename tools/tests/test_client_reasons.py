"""What a reason means for the caller is the same in every language."""

from __future__ import annotations

import re

import pytest

from ariane_sdk.net.status import ROUTING_REASONS
from ariane_servicekit.error_table import ERROR_TABLE
from tools.workspace import ROOT

SOURCES = {
    "go": ("go/ariane/errors.go", "retriableReasons", "unknownReasons", "routingReasons"),
    "java": (
        "java/src/main/java/mq/ariane/client/ArianeException.java",
        "RETRIABLE_REASONS",
        "UNKNOWN_REASONS",
        "ROUTING_REASONS",
    ),
    "typescript": (
        "typescript/src/errors.ts",
        "RETRIABLE_REASONS",
        "UNKNOWN_REASONS",
        "ROUTING_REASONS",
    ),
}


def reasons_of(text, name):
    """The reasons of a list: quoted words from its assignment to its closing bracket."""
    listed = re.search(
        rf"\b{name}\b[^=\n]* = [^(\[{{]*[(\[{{](.*?)(?:\)|\]\)|\}});?\n", text, re.DOTALL
    )
    assert listed, name
    return set(re.findall(r'"([A-Z_]+)"', listed[1]))


@pytest.mark.parametrize("language", SOURCES)
def test_clients_judge_reasons_as_the_table_of_the_services_does(language):
    path, retriable, unknown, routing = SOURCES[language]
    text = (ROOT / "sdk" / path).read_text()
    rows = ERROR_TABLE.values()
    assert reasons_of(text, retriable) == {row.name for row in rows if row.retriable}
    assert reasons_of(text, unknown) == {row.name for row in rows if row.outcome_unknown}
    assert reasons_of(text, routing) == set(ROUTING_REASONS)
