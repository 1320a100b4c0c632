"""No secret stands in the arguments or the environment of a process."""

import json
import os
import subprocess
import sys

import pytest

from ariane_servicekit.running.process_list import VALUE_OCTETS_MIN

PROGRAM = """
import json, os, subprocess, sys
from pathlib import Path
from ariane_servicekit.running.process_list import hide

hide(**json.loads(sys.argv[1]))
shown = [Path(f"/proc/self/{name}").read_bytes().decode() for name in ("cmdline", "environ")]
ask = [sys.executable, "-c", "import os; print(os.environ['URL'], end='')"]
child = subprocess.run(ask, capture_output=True, check=True).stdout.decode()
print(json.dumps([*(each.split("\\0") for each in shown), child, sys.argv[2:], os.environ["URL"]]))
"""
FIRST = 4
"""Where the words begin: behind the interpreter, -c, the program and what it hides."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there it can be hidden")


def hidden(given, words, **variables):
    """Arguments and environment as lists of processes show them, and what the program has."""
    program = [sys.executable, "-c", PROGRAM, json.dumps(given), *words]
    environment = {**os.environ, "URL": "", **variables}
    run = subprocess.run(program, capture_output=True, env=environment, check=True)
    arguments, environ, *rest = json.loads(run.stdout)
    return arguments[FIRST:-1], dict(each.partition("=")[::2] for each in environ[:-1]), *rest


def test_asterisks_stand_behind_the_names_of_secrets_and_over_nothing_else():
    words = ["--url=a", "--url", "é=b", "a", "--mine=a", "", "--url-too=a", "url", "a", "--url"]
    given = {"flags": ["--url"], "variables": ["URL"]}
    shown, environ, child, own, own_url = hidden(given, words, URL="a=b", OTHER="a=b")
    assert shown == [
        *("--url=*", "--url", "****", "a"),
        *("--mine=a", "", "--url-too=a", "url", "a", "--url"),
    ]
    assert (environ["URL"], environ["OTHER"]) == ("***", "a=b")
    assert set(os.environ) <= set(environ)
    # A child inherits the asterisks, and the program itself has all as it was.
    assert (child, own, own_url) == ("***", words, "a=b")


def test_asterisks_stand_over_long_secrets_wherever_they_are_and_over_no_short_ones():
    long, short = "me:hunter2", "x" * (VALUE_OCTETS_MIN - 1)
    words = [f"--u={long}", long, f"a{long}b{long}", "hunter", short, f"--listen={short}"]
    given = {"values": [long, short, "", "absent-one"]}
    shown, environ, *_ = hidden(given, words, URL=f"x://{long}@h", OTHER=short)
    stars = "*" * len(long)
    assert shown == [f"--u={stars}", stars, f"a{stars}b{stars}", *words[3:]]
    assert (environ["URL"], environ["OTHER"]) == (f"x://{stars}@h", short)


def test_a_secret_that_another_one_overrides_is_hidden_too():
    words = ["--url", "first-of-two", "--url=second-of-two"]
    given = {"flags": ["--url"], "values": ["second-of-two"]}
    assert hidden(given, words)[0] == ["--url", "*" * 12, "--url=" + "*" * 13]
