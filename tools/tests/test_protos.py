"""The contract's workshop says no when it should."""

from __future__ import annotations

import shutil

import pytest

from tools import protos

ROUTE = "ariane/namesrv/v1/route.proto"


def work_in(folder, monkeypatch):
    monkeypatch.setattr(protos, "ROOT", folder.parent)
    monkeypatch.setattr(protos, "PROTOS", folder)
    monkeypatch.setattr(protos, "GENERATED", folder / "src")
    monkeypatch.setattr(protos, "CONFIG", folder / "buf.yaml")
    monkeypatch.setattr(protos, "BASELINE", folder / "baseline.binpb")


@pytest.fixture(scope="module")
def name_server(tmp_path_factory):
    """The contract of name servers alone, which is compiled sooner than all of it."""
    folder = tmp_path_factory.mktemp("name-server") / "protos"
    for area in ("namesrv", "common"):
        shutil.copytree(protos.PROTOS / "ariane" / area, folder / "ariane" / area)
    shutil.copytree(protos.PROTOS / "google", folder / "google")
    shutil.copy(protos.CONFIG, folder)
    (folder / "src").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        work_in(folder, patch)
        assert protos.main(["generate"]) == 0
    return folder


@pytest.fixture
def workshop(name_server, tmp_path, monkeypatch):
    """A copy of it, with everything that the tools look at."""
    folder = tmp_path / "protos"
    shutil.copytree(name_server, folder)
    work_in(folder, monkeypatch)
    return folder


@pytest.fixture
def edit(workshop):
    """Replace a text that stands once in a proto."""

    def replace(old: str, new: str) -> None:
        path = workshop / ROUTE
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    return replace


ADDED = "  bool write_wiped = 5;\n\n  // Something new.\n  int32 added_count = 60;\n"


def test_as_it_is_nothing_is_wrong(workshop, capsys):
    for verb in ("stale", "lint", "format", "breaking"):
        assert protos.main([verb]) == 0, capsys.readouterr().out


def test_missing_comment_is_found(edit, capsys):
    edit("  // Whether maintenance took its write permission away.\n", "")
    assert protos.main(["lint"]) == 1
    assert "write_wiped" in capsys.readouterr().out


def test_bad_layout_is_found_and_mended(edit, capsys):
    edit("  bool write_wiped = 5;", "    bool write_wiped=5;")
    assert protos.main(["format"]) == 1
    assert "write_wiped" in capsys.readouterr().out
    assert protos.main(["format", "--write"]) == 0
    assert protos.main(["format"]) == 0


def test_removed_field_breaks(edit, capsys):
    edit("  // Whether maintenance took its write permission away.\n  bool write_wiped = 5;\n", "")
    assert protos.main(["breaking"]) == 1
    assert "write_wiped" in capsys.readouterr().out


def test_generate_refuses_a_break_until_it_is_accepted(edit, workshop, capsys):
    edit("bool write_wiped = 5;", "bool write_wiped = 60;")
    before = (workshop / "baseline.binpb").read_bytes()
    assert protos.main(["generate"]) == 1
    assert (workshop / "baseline.binpb").read_bytes() == before
    assert protos.main(["generate", "--accept-breaking"]) == 0
    assert protos.main(["breaking"]) == 0, capsys.readouterr().out


def test_addition_makes_stubs_stale_and_is_then_protected(edit, workshop, capsys):
    edit("  bool write_wiped = 5;\n", ADDED)
    assert protos.main(["breaking"]) == 0
    assert protos.main(["stale"]) == 1
    said = capsys.readouterr().out
    assert "route_pb2.pyi" in said
    assert "baseline.binpb" in said
    untouched = workshop / "src/ariane/common/v1/message_pb2.py"
    before = untouched.stat().st_mtime_ns
    assert protos.main(["generate"]) == 0
    assert protos.main(["stale"]) == 0
    assert untouched.stat().st_mtime_ns == before
    edit("  // Something new.\n  int32 added_count = 60;\n", "")
    assert protos.main(["breaking"]) == 1


def test_stubs_of_a_proto_that_is_gone_go_too(workshop, capsys):
    (workshop / "src/ariane/common/v1/left_over_pb2.py").touch()
    assert protos.main(["stale"]) == 1
    assert "left_over_pb2.py" in capsys.readouterr().out
    assert protos.main(["generate"]) == 0
    assert not (workshop / "src/ariane/common/v1/left_over_pb2.py").exists()


def test_proto_that_does_not_compile_is_told(edit, capsys):
    edit("bool write_wiped = 5;", "bool write_wiped = five;")
    assert protos.main(["lint"]) == 1
    assert "route.proto" in capsys.readouterr().out
