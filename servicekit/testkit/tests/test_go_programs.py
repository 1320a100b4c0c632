"""Programs in Go are built once, and whoever cannot have one is told why."""

import pytest

from ariane_testkit.programs.go_programs import GoProgramUnavailable, go_program

GO = """#!/bin/sh
PATH=/usr/bin:/bin
echo "$@" >> "{calls}"
[ ! -e "{slow}" ] || exec sleep 60
[ ! -e "{broken}" ] || {{ echo "no such version" >&2; exit 1; }}
touch "$GOBIN/queue"
"""
MODULE = "example.org/tools/cmd/queue@v1.2.3"


@pytest.fixture
def go(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    marks = {name: tmp_path / name for name in ("calls", "slow", "broken")}
    (folder / "go").write_text(GO.format(**marks))
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "go"


def test_a_program_is_built_once(tmp_path, go):
    first = go_program(MODULE, tmp_path / "cache")
    go.unlink()
    assert go_program(MODULE, tmp_path / "cache") == first
    assert (first.name, first.exists()) == ("queue", True)
    assert (tmp_path / "calls").read_text() == f"install {MODULE}\n"


def test_a_program_that_cannot_be_built_is_reported_with_its_cause(tmp_path, go):
    (tmp_path / "broken").touch()
    with pytest.raises(GoProgramUnavailable, match="no such version"):
        go_program(MODULE, tmp_path / "cache")
    (tmp_path / "broken").unlink()
    (tmp_path / "slow").touch()
    with pytest.raises(GoProgramUnavailable, match="longer than 0 s"):
        go_program(MODULE, tmp_path / "cache", build_s_max=0.1)
    go.unlink()
    with pytest.raises(GoProgramUnavailable, match="not on this machine"):
        go_program(MODULE, tmp_path / "cache")
