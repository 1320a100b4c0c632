"""What a program loads that only makes calls: it pays for it at each start."""

import subprocess
import sys

PROGRAM = """
import sys
import ariane_wire
needless = {"ariane_wire.server.server", "http.client", "urllib.request"} & set(sys.modules)
assert not needless, needless
ariane_wire.server()
assert "ariane_wire.server.server" in sys.modules
ariane_wire.server()
"""


def test_clients_load_neither_servers_nor_http():
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
