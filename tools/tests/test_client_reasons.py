"""What each reason means for the caller is in the contract, and nowhere else."""

from __future__ import annotations

import re

import pytest

from ariane.common.v1 import reason_options_pb2 as options
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_sdk.net.status import REASON_ROWS, ROUTING_REASONS
from ariane_servicekit.error_table import ERROR_TABLE
from tools.workspace import ROOT

CLIENTS = {
    "go": "go/ariane/*.go",
    "java": "java/src/main/java/**/*.java",
    "typescript": "typescript/src/*.ts",
}


def test_services_and_client_say_of_each_reason_what_the_contract_says():
    assert len(ERROR_TABLE) > 80
    for value in ErrorReason.DESCRIPTOR.values[1:]:
        said = value.GetOptions().Extensions
        name = value.name.removeprefix("ERROR_REASON_")
        row, client = ERROR_TABLE[value.number], REASON_ROWS[name]
        assert row.code.value[0] == said[options.code] != 0, name
        assert row.retriable == client.retriable == said[options.retriable], name
        assert row.outcome_unknown == client.outcome_unknown == said[options.outcome_unknown], name
        assert (row.retry_after_ms or 0) == said[options.retry_after_ms], name
        assert (name in ROUTING_REASONS) == said[options.routing], name


@pytest.mark.parametrize("language", CLIENTS)
def test_clients_of_other_languages_list_no_reasons(language):
    """A few that they treat in a way of their own are named; lists of what reasons mean are not."""
    names = {value.removeprefix("ERROR_REASON_") for value in ErrorReason.keys()}  # noqa: SIM118
    text = "".join(path.read_text() for path in (ROOT / "sdk").glob(CLIENTS[language]))
    named = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', text)) & names
    assert 0 < len(named) < 20, named
