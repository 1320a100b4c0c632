"""The folder of modules: what survives, what is shared, what is refused."""

import hashlib
import os

import pytest

from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.filter_version import (
    FilterVersion,
    checked_digits,
    checked_name,
    parse_filter_version,
)
from ariane_filter.catalogue.folder import Folder
from ariane_filter.jail.limits import FilterLanguage
from ariane_servicekit import ServiceError, StartRefused

CODE = b"def matches(message): return True"
WASM = b"\0asm\1\0\0\0"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "filters"


@pytest.fixture
def open_catalogue(folder):
    def make(filters_max=100):
        catalogue = Catalogue(Folder(folder), filters_max=filters_max)
        catalogue.open()
        return catalogue

    return make


@pytest.fixture
def catalogue(open_catalogue):
    return open_catalogue()


def reason_of(call, *arguments):
    with pytest.raises(ServiceError) as raised:
        call(*arguments)
    return raised.value.row.name


def keep(catalogue, name="late", code=CODE):
    version = FilterVersion.of(name, code)
    catalogue.keep(version, code)
    return version


def test_what_is_kept_is_the_module_itself_under_its_hash(catalogue, folder):
    version = FilterVersion.of("late", CODE)
    assert version.sha256 == hashlib.sha256(CODE).hexdigest()
    assert not catalogue.keep(version, CODE)
    assert catalogue.keep(version, CODE)
    assert [path.name for path in folder.iterdir()] == [f"late@{version.sha256}.py"]
    assert catalogue.load(version).code == CODE
    wide = keep(catalogue, "wide", WASM)
    assert catalogue.load(wide).language is FilterLanguage.WASM
    assert [str(kept.version) for kept in catalogue.all()] == [str(version), str(wide)]
    assert catalogue.find("late", version.sha256[:12]).size_bytes == len(CODE)


def test_another_server_of_the_broker_sees_all_of_it_and_so_does_one_that_was_away(open_catalogue):
    one, other = open_catalogue(), open_catalogue()
    version = keep(one)
    one.quarantine(version, "too wild")
    for server in (other, open_catalogue()):
        assert server.load(version).code == CODE
        assert server.quarantine_cause(version) == "too wild"
        assert server.all()[0].quarantine_cause == "too wild"
    other.release(version)
    assert one.quarantine_cause(version) == ""
    other.delete(version)
    assert one.all() == []
    assert not one.has(version)


def test_versions_of_one_name_stand_side_by_side(catalogue):
    versions = {keep(catalogue, code=CODE + b" " * number) for number in range(3)}
    assert {kept.version for kept in catalogue.all()} == versions
    for version in versions:
        assert catalogue.find("late", version.sha256[:12]).version == version


def test_digits_that_two_versions_share_are_refused(catalogue, folder):
    for ending in ("0", "1"):
        (folder / f"late@{'ab' * 20}{ending * 24}.py").write_bytes(b"x")
    assert reason_of(catalogue.find, "late", "ab" * 20) == "FIELD_INVALID"
    assert catalogue.find("late", "ab" * 20 + "1").version.sha256.endswith("1")


def test_a_damaged_file_is_never_run_and_mended_by_an_upload(catalogue, folder):
    version = keep(catalogue)
    path = folder / f"late@{version.sha256}.py"
    path.write_bytes(CODE.replace(b"True", b"Fals"))
    assert reason_of(catalogue.load, version) == "FILTER_MODULE_INVALID"
    assert not catalogue.keep(version, CODE)
    assert catalogue.load(version).code == CODE


def test_what_a_killed_writer_left_is_not_seen_and_goes_later(catalogue, folder, open_catalogue):
    young, old = folder / ".late@ab.py.7-ab.tmp", folder / ".late@ab.py.8-ab.tmp"
    for path in (young, old):
        path.write_bytes(CODE[:5])
    os.utime(old, (1, 1))
    assert catalogue.all() == []
    open_catalogue()
    assert (young.exists(), old.exists()) == (True, False)


def test_foreign_files_are_passed_over(catalogue, folder):
    (folder / "README.py").write_bytes(b"")
    (folder / "late@12.py").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"")
    assert catalogue.all() == []


def test_there_is_an_end_of_it(open_catalogue):
    catalogue = open_catalogue(filters_max=2)
    first = keep(catalogue)
    keep(catalogue, "wide", WASM)
    assert reason_of(keep, catalogue, "third", CODE) == "STORE_FULL"
    catalogue.keep(first, CODE)  # It is there already.


def test_unknown_versions(catalogue):
    version = keep(catalogue)
    assert reason_of(catalogue.find, "late", "0" * 12) == "FILTER_NOT_FOUND"
    assert reason_of(catalogue.find, "lat", version.sha256[:12]) == "FILTER_NOT_FOUND"
    catalogue.delete(version)
    assert reason_of(catalogue.load, version) == "FILTER_NOT_FOUND"


def test_a_folder_that_cannot_be_used_is_said_at_the_start(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StartRefused, match="cannot use"):
        Catalogue(Folder(tmp_path / "file"), filters_max=1).open()


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 121, "é", "a\n"])
def test_no_name_becomes_a_path_unchecked(name):
    assert reason_of(checked_name, name) == "FIELD_INVALID"
    assert reason_of(parse_filter_version, f"{name}@{'0' * 12}") == "FILTER_EXPRESSION_INVALID"


@pytest.mark.parametrize("digits", ["", "0" * 11, "0" * 65, "A" * 12, "/" * 12, "0" * 12 + "\n"])
def test_no_version_becomes_a_path_unchecked(digits):
    assert reason_of(checked_digits, digits) == "FIELD_INVALID"
    assert reason_of(parse_filter_version, f"late@{digits}") == "FILTER_EXPRESSION_INVALID"
