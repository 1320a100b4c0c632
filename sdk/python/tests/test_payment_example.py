"""Orders are paid exactly once, whatever is made to fail: the example, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ariane_testkit.postgresql import PostgresqlUnavailable, find_programs

EXAMPLE = Path(__file__).parent.parent / "examples" / "payments"


@pytest.fixture
def programs():
    try:
        find_programs()
    except PostgresqlUnavailable as missing:
        pytest.skip(str(missing))


def run(count, limit_s, *flags):
    command = [sys.executable, str(EXAMPLE), "--orders", str(count), *flags]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def check(printed, count):
    (ordered,) = re.findall(rf"ordered +([\d,.]+) in {count} orders", printed)
    (paid,) = re.findall(rf"paid +([\d,.]+) in {count} payments", printed)
    assert ordered == paid
    forced = [int(times) for times in re.findall(r"(\d+) x ", printed)]
    assert len(forced) == 8
    assert min(forced) > 0


@pytest.mark.slow
def test_money_moves_exactly_once(postgresql_url):
    check(run(200, 100, "--database-url", postgresql_url), 200)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_money_of_ten_thousand_orders_moves_exactly_once(programs):
    check(run(10_000, 380), "10000")
