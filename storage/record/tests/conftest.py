import json
import runpy
from pathlib import Path

import pytest

from ariane_record.single.message import RecordFields

GOLDEN = Path(__file__).parent / "golden"
CASES = json.loads((GOLDEN / "cases.json").read_text())


@pytest.fixture(scope="session")
def record_bytes():
    """The plain writer of the golden files."""
    return runpy.run_path(str(GOLDEN / "write_golden.py"))["record_bytes"]


@pytest.fixture(params=sorted(CASES))
def golden_case(request):
    """One golden case after the other: its name, and its fields as the file of cases has them."""
    return request.param, CASES[request.param]


@pytest.fixture
def golden(golden_case):
    """The bytes of a golden record and the fields that they mean."""
    name, case = golden_case
    fields = RecordFields(
        topic=case["topic"],
        body=bytes.fromhex(case["body"]),
        properties=case["properties"],
        queue_id=case["queue_id"],
        queue_offset=case["queue_offset"],
        commit_log_offset=case["commit_log_offset"],
        flag=case["flag"],
        system_flag=case["system_flag"],
        born_timestamp_ms=case["born_timestamp_ms"],
        born_host=tuple(case["born_host"]),
        store_timestamp_ms=case["store_timestamp_ms"],
        store_host=tuple(case["store_host"]),
        attempts=case["attempts"],
        half_offset=case["half_offset"],
    )
    return (GOLDEN / f"{name}.bin").read_bytes(), fields, case["checksum"]
