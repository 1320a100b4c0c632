import sys

import pytest
from peer_bench.errors import ToolFailed
from peer_bench.processes.tools import run_tool


def test_a_tool_that_fails_or_takes_too_long_is_told_by_what_it_did():
    assert run_tool("making", [sys.executable, "-c", "print('made')"], 20) == "made\n"
    with pytest.raises(ToolFailed, match="making ended with status 3: no room"):
        run_tool("making", [sys.executable, "-c", "import sys; print('no room'); sys.exit(3)"], 20)
    with pytest.raises(ToolFailed, match=r"^making took longer than 0.2 s$"):
        run_tool("making", [sys.executable, "-c", "import time; time.sleep(9)"], 0.2)
    with pytest.raises(ToolFailed, match="making: /no/such/program cannot be started"):
        run_tool("making", ["/no/such/program"], 1)
