import os
import sys

import pytest
from peer_bench.drivers import Driver
from peer_bench.errors import DriverFailed

CODE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print("a banner")
    if asked["do"] == "end":
        sys.exit(3)
    print(json.dumps({"error": "no"} if asked["do"] == "fail" else asked), flush=True)
"""


@pytest.fixture
def driver(tmp_path):
    with Driver("echo", [sys.executable, "-c", CODE], tmp_path / "logs" / "log") as driver:
        yield driver


def test_an_answer_comes_behind_banners(driver):
    assert driver.ask("produce", count=3) == {"do": "produce", "count": 3}
    assert driver.pid > 0


def test_a_failure_and_an_end_are_told(driver):
    with pytest.raises(DriverFailed, match="echo: no; the end of"):
        driver.ask("fail")
    with pytest.raises(DriverFailed, match="ended with status 3"):
        driver.ask("end")


def test_processes_that_a_client_started_end_with_it(tmp_path, ends_soon):
    code = "import json, subprocess, sys\n"
    code += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    code += "sys.stdin.readline(); print(json.dumps({'pid': child.pid}), flush=True)\n"
    with Driver("parent", [sys.executable, "-c", code], tmp_path / "log") as driver:
        pid = driver.ask("produce")["pid"]
        os.kill(pid, 0)
    assert ends_soon(pid)


def test_a_client_that_is_not_there_is_told(tmp_path):
    with (
        pytest.raises(DriverFailed, match=r"nobody cannot be started: .*No such file"),
        Driver("nobody", ["/no/such/program"], tmp_path / "log"),
    ):
        raise AssertionError("it does not run")
