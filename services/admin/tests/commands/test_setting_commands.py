"""``ariane setting`` and ``ariane broker set``: settings of running processes."""

import json

import pytest

from ariane.admin.v1 import setting_service_pb2 as setting_pb
from ariane.admin.v1.setting_service_pb2_grpc import SettingServiceStub
from ariane_admin.terminal.exits import ExitStatus


def value_of(listed, name):
    [row] = [row for row in listed if row["name"] == name]
    return row["value"]


def test_a_setting_of_a_broker_is_changed_and_the_others_keep_theirs(ariane_json, cluster):
    first, second = (broker.address for broker in cluster.brokers)
    told = ariane_json("broker", "set", "broker-a", "concurrent-calls-max=8192")
    try:
        assert [(row["address"], row["before"], row["value"], row["error"]) for row in told] == [
            (first, "4096", "8192", None)
        ]
        shown = ariane_json("broker", "show", "broker-a", "--settings")["settings"]
        assert value_of(shown, "concurrent_calls_max") == "8192"
        [row] = [
            row
            for row in ariane_json("setting", "list", "broker", "--differing")
            if row["name"] == "concurrent_calls_max"
        ]
        assert row["values"] == {first: "8192", second: "4096"}
        assert row["changeable"]
    finally:
        ariane_json("broker", "set", "broker-a", "concurrent_calls_max=4096")


def test_settings_of_name_servers_are_changed_in_all_or_one(ariane_json, cluster):
    names = cluster.name_servers.split(",")
    told = ariane_json("setting", "set", "namesrv", "concurrent_calls_max=4095")
    assert sorted(row["address"] for row in told) == sorted(names)
    ariane_json("setting", "set", "namesrv", "concurrent_calls_max=4096", "--at", names[0])
    listed = ariane_json("setting", "list", "namesrv", "--at", names[1])
    assert value_of(listed, "concurrent_calls_max") == "4095"
    ariane_json("setting", "set", "namesrv", "concurrent_calls_max=4096")
    listed = ariane_json("setting", "list", "namesrv")
    assert value_of(listed, "concurrent_calls_max") == "4096"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["store_path=/"],
            "may not change while the process runs; what may: access, c",
        ),
        (["no_such=1"], "is not known; what may: access, c"),
        (["concurrent_calls_max=0"], "greater than or equal to"),
        (["concurrent_calls_max=" + "9" * 5000], "concurrent_calls_max"),
        (["concurrent_calls_max"], "give KEY=VALUE"),
        (["=1"], "give KEY=VALUE"),
        ([""], "give KEY=VALUE"),
        ([], "Missing argument"),
    ],
)
def test_a_setting_that_may_not_change_is_refused_in_one_line(ariane, words, said):
    told = ariane("broker", "set", "broker-a", *words, status=ExitStatus.USAGE)
    assert said in told
    assert "Traceback" not in told


def test_changes_before_a_refusal_are_reported(ariane, capfd):
    told = ariane(
        *("broker", "set", "broker-a", "concurrent_calls_max=4096", "store_path=/", "-o", "json"),
        status=ExitStatus.USAGE,
    )
    assert "the assignments before it were changed: concurrent_calls_max" in told


def test_an_unknown_broker_and_an_unknown_process_are_refused(ariane):
    ariane("broker", "set", "broker-z", "concurrent_calls_max=1", status=ExitStatus.NOT_FOUND)
    told = ariane(
        *("setting", "set", "namesrv", "concurrent_calls_max=1", "--at", "10.0.0.1:1"),
        status=ExitStatus.USAGE,
    )
    assert "there is no namesrv at 10.0.0.1:1" in told
    told = ariane("setting", "set", "admin", "concurrent_calls_max=1", status=ExitStatus.USAGE)
    assert "there is no admin in this cluster" in told


def test_admin_writes_a_changed_setting_down(ariane, ariane_json, admin_beside):
    ariane("broker", "set", "broker-b", "concurrent_calls_max=4096")
    [entry] = ariane_json("audit", "list", "--method", "UpdateSetting")
    assert entry["outcome"] == "done"
    assert "concurrent_calls_max" in json.dumps(entry)


async def test_filter_servers_are_processes_of_the_cluster(admin, ready):
    request = setting_pb.ListProcessesRequest(service="filter")
    told = (await SettingServiceStub(admin).ListProcesses(request)).processes
    assert sorted(each.process.address for each in told) == sorted(
        process.address for process in ready
    )
    assert all(each.state.version for each in told)


def test_a_whole_number_is_written_as_its_default_is_and_does_not_differ(ariane_json):
    listed = {row["name"]: row for row in ariane_json("setting", "list", "namesrv")}
    assert listed["scan_interval_s"]["value"] == listed["scan_interval_s"]["default"] == "10"
    differing = {row["name"] for row in ariane_json("setting", "list", "namesrv", "--differing")}
    assert "listen" in differing
    assert "scan_interval_s" not in differing
