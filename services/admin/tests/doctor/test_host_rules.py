"""What the doctor says of the machine that a store is on."""

from dataclasses import replace
from pathlib import Path

import pytest

from ariane_admin.cli import main
from ariane_admin.doctor.findings import Severity
from ariane_admin.doctor.host_facts import HostFacts, gather_host_facts
from ariane_admin.doctor.host_rules import diagnose_host
from ariane_admin.terminal.exits import ExitStatus

GOOD = HostFacts(
    path=Path("/store"),
    mount_point="/store",
    file_system="xfs",
    mount_options=frozenset({"rw", "noatime"}),
    scheduler="none",
    memory_bytes=64 << 30,
    vm={"swappiness": 1, "dirty_bytes": 1 << 30, "dirty_ratio": 0},
    open_files=1 << 20,
    clock_disciplined=True,
    flush_ms=[0.4, 0.5, 2.0],
)


def test_a_good_machine_is_no_finding_nor_is_what_cannot_be_found_out():
    assert diagnose_host(GOOD) == []
    unknown = HostFacts(path=Path("/store"), vm={}, open_files=-1, flush_ms=[0.4])
    assert diagnose_host(unknown) == []


@pytest.mark.parametrize(
    ("change", "severity", "words"),
    [
        ({"file_system": "tmpfs"}, Severity.ERROR, "loses all messages"),
        ({"file_system": "nfs4"}, Severity.ERROR, "another machine"),
        ({"file_system": "overlay"}, Severity.WARNING, "container"),
        ({"mount_options": frozenset({"nobarrier"})}, Severity.ERROR, "without barriers"),
        ({"mount_options": frozenset({"strictatime"})}, Severity.NOTE, "time of each read"),
        ({"scheduler": "bfq"}, Severity.WARNING, "flushes of the broker wait"),
        ({"vm": {"swappiness": 60}}, Severity.WARNING, "is 60"),
        ({"vm": {"dirty_ratio": 20}}, Severity.NOTE, "13107 MiB"),
        ({"open_files": 1024}, Severity.WARNING, "may have 1024"),
        ({"clock_disciplined": False}, Severity.WARNING, "keeps it right"),
        ({"flush_ms": [30.0, 31.0, 90.0]}, Severity.WARNING, "takes 31.00 ms"),
        ({"flush_ms": [0.001, 0.002, 0.003]}, Severity.WARNING, "acknowledged"),
        ({"flush_error": "read only", "flush_ms": []}, Severity.ERROR, "read only"),
    ],
)
def test_each_fault_says_why_and_what_to_do(change, severity, words):
    [finding] = diagnose_host(replace(GOOD, **change))
    assert finding.severity is severity
    assert words in finding.finding
    assert finding.advice


def test_this_machine_is_examined(tmp_path, capfd):
    facts = gather_host_facts(tmp_path)
    assert facts.file_system
    assert tmp_path.is_relative_to(facts.mount_point)
    assert {"swappiness", "dirty_ratio"} <= facts.vm.keys()
    assert (len(facts.flush_ms), facts.flush_error) == (50, "")
    assert list(tmp_path.iterdir()) == []
    errors = [each for each in diagnose_host(facts) if each.severity is Severity.ERROR]
    status = ExitStatus.FAILED if errors else ExitStatus.DONE
    assert main(["doctor", "--host", str(tmp_path)]) == status
    out = capfd.readouterr().out
    assert out.count("\n") == max(1, len(diagnose_host(facts)))
    assert main(["doctor", "--host", str(tmp_path / "missing")]) == ExitStatus.USAGE
