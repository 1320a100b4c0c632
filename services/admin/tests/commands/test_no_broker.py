"""A cluster whose brokers are all away is not an empty one."""

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_servicekit.running.processes import LocalCluster


@pytest.fixture(scope="module")
def name_server(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("alone"), brokers=0) as alone:
        yield alone.name_servers


@pytest.mark.parametrize(
    "words",
    [
        ("broker", "list"),
        ("client", "list"),
        ("group", "list"),
        ("group", "show", "billing"),
        ("message", "delayed"),
        ("topic", "list"),
    ],
    ids=" ".join,
)
def test_a_list_without_brokers_is_no_empty_list(name_server, capfd, words):
    capfd.readouterr()
    status = main([*words, "--name-servers", name_server])
    said = capfd.readouterr()
    assert status == ExitStatus.UNREACHABLE, said
    assert "no broker is registered" in said.err
