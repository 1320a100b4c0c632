"""Files that a command line names: one that cannot be used is wrong usage, and nobody is asked."""

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus

CONTEXT = ("context", "add", "prod", "--name-servers", "10.0.0.1:9876")


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch, tmp_path):
    """A command that asked before it looked at its files would end with another status."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ARIANE_NAME_SERVERS", "ARIANE_ADMIN"):
        monkeypatch.setenv(name, "127.0.0.1:1")


@pytest.mark.parametrize(
    "words",
    [
        (*CONTEXT, "--tls-ca"),
        (*CONTEXT, "--tls-certificate"),
        (*CONTEXT, "--tls-key"),
        ("access", "import"),
        ("credential", "import-rocketmq"),
        ("debug", "bundle", "--log"),
        ("definition", "import"),
        ("doctor", "--host"),
        ("filter", "upload", "late"),
        ("produce", "orders"),
        ("tls", "show"),
        ("tls", "renew"),
        ("--tls-ca",),
    ],
    ids=" ".join,
)
def test_a_file_that_is_missing_is_wrong_usage(capfd, tmp_path, words):
    missing = str(tmp_path / "missing")
    rest = ("topic", "list") if words == ("--tls-ca",) else ()
    assert main([*words, missing, *rest]) == ExitStatus.USAGE
    [line] = capfd.readouterr().err.splitlines()
    assert missing in line
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("credential", "create", "--user", "anna"),
        ("debug", "bundle", "--file"),
        ("definition", "export", "--to"),
        ("dead-letter", "export", "billing", "--to"),
        ("message", "show", "7F00000100002A9F00000000000001BC", "--save-body"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("place", ["missing/file", "file/below"])
def test_a_file_that_cannot_be_written_is_wrong_usage(capfd, tmp_path, words, place):
    (tmp_path / "file").write_text("a file, and no folder")
    target = str(tmp_path / place)
    assert main([*words, target]) == ExitStatus.USAGE
    [line] = capfd.readouterr().err.splitlines()
    assert target in line


@pytest.mark.parametrize("words", [("definition", "export"), ("dead-letter", "export", "billing")])
def test_an_export_that_fails_leaves_the_older_one(tmp_path, words):
    older = tmp_path / "older.json"
    older.write_text("{}\n")
    assert main([*words, "--to", str(older)]) == ExitStatus.UNREACHABLE
    assert older.read_text() == "{}\n"


@pytest.mark.parametrize(
    "words",
    [("access", "import"), ("credential", "import-rocketmq"), ("definition", "import")],
    ids=" ".join,
)
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"nothing that it knows\n"])
def test_a_file_with_something_else_is_wrong_usage(capfd, tmp_path, words, content):
    path = tmp_path / "given"
    path.write_bytes(content)
    assert main([*words, str(path)]) == ExitStatus.USAGE
    [line] = capfd.readouterr().err.splitlines()
    assert "Error:" not in line
    assert "Traceback" not in line
