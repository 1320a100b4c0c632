"""No secret stands in the arguments or the environment of a process."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
from ariane_servicekit.running.process_list import hide

hide(sys.argv[1].split())
shown = [Path(f"/proc/self/{name}").read_bytes().decode() for name in ("cmdline", "environ")]
ask = [sys.executable, "-c", "import os; print(os.environ['URL'], end='')"]
child = subprocess.run(ask, capture_output=True, check=True).stdout.decode()
print(json.dumps([*(each.split("\\0") for each in shown), child, sys.argv[2:], os.environ["URL"]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there it can be hidden")
def test_asterisks_stand_over_secrets_and_over_nothing_else():
    words = ["--url=me:hunter2", "--url", "me:hunter2", "--mine=xme:hunter2", "", "hunter", "é=é"]
    given = [sys.executable, "-c", PROGRAM, "me:hunter2 é absent", *words]
    environment = {**os.environ, "URL": "me:hunter2", "OTHER": "hunter2"}
    run = subprocess.run(given, capture_output=True, env=environment, check=True)
    arguments, shown, child, own, own_url = json.loads(run.stdout)
    hidden = ["--url=**********", "--url", "**********", "--mine=xme:hunter2", "", "hunter", "é=**"]
    assert arguments[4:-1] == hidden
    assert {"URL=**********", "OTHER=hunter2"} <= set(shown)
    assert {name for name in os.environ if name not in {"URL", "OTHER"}} <= {
        each.partition("=")[0] for each in shown
    }
    # A child inherits the asterisks, and the program itself has all as it was.
    assert (child, own, own_url) == ("**********", words, "me:hunter2")
