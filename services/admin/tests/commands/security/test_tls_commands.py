"""``ariane tls``: authorities and certificates in a folder."""

import json
import stat

import pytest
from cryptography import x509

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_servicekit.security.tls.certificate_folder import is_issued_by

BROKER = "ariane://main/broker/b-0"
ANNA = "ariane://main/user/anna"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "certificates"


@pytest.fixture
def run(capsys, folder):
    def run(verb, *arguments, status=ExitStatus.DONE):
        capsys.readouterr()
        assert main(["tls", verb, str(folder), *arguments]) == status
        told = capsys.readouterr()
        return told.out if status is ExitStatus.DONE else told.err

    return run


@pytest.fixture
def rows(run):
    def rows(verb="show", *arguments):
        return {row["file"]: row for row in json.loads(run(verb, *arguments, "-o", "json"))}

    return rows


@pytest.fixture
def cluster(rows):
    return rows(
        *("init", "--cluster", "main", "--user", "anna"),
        *("--member", "broker/b-0=b-0.test,10.0.0.2", "--member", "namesrv/n1=localhost"),
    )


def certificates(folder, name):
    return x509.load_pem_x509_certificates((folder / name).read_bytes())


def test_a_folder_has_two_authorities_and_the_names_that_were_asked_for(cluster, folder, rows):
    assert set(cluster) == {
        *("members.pem", "users.pem", "broker-b-0.pem", "namesrv-n1.pem", "user-anna.pem")
    }
    broker, anna = cluster["broker-b-0.pem"], cluster["user-anna.pem"]
    assert (broker["name"], broker["hosts"]) == (BROKER, "b-0.test, 10.0.0.2")
    assert (anna["name"], anna["hosts"]) == (ANNA, "")
    members, users = certificates(folder, "members.pem"), certificates(folder, "users.pem")
    leaf, user = (certificates(folder, f"{name}.pem")[0] for name in ("broker-b-0", "user-anna"))
    assert is_issued_by(leaf, members)
    assert not is_issued_by(leaf, users)
    assert is_issued_by(user, users)
    assert not is_issued_by(user, members)
    assert rows() == cluster


def test_nobody_else_may_read_a_folder_or_a_file_of_it(cluster, folder):
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 2 * len(cluster)


def test_a_second_init_adds_and_keeps(cluster, rows):
    added = rows(
        *("init", "--cluster", "main", "--user", "anna", "--user", "ben"),
        *("--member", "broker/b-0=elsewhere.test", "--member", "broker/b-1=b-1.test"),
    )
    assert set(added) == {"broker-b-1.pem", "user-ben.pem"}
    assert rows() == {**cluster, **added}


def test_those_that_end_soon_are_renewed(cluster, rows, run):
    soon = rows("init", "--cluster", "main", "--user", "soon", "--days", "20")
    assert soon["user-soon.pem"]["days_left"] in {19, 20}
    renewed = rows("renew")
    assert set(renewed) == set(soon)
    assert renewed["user-soon.pem"]["days_left"] > 360
    assert "Nothing to renew" in run("renew")
    assert set(rows("renew", "--all")) == {*cluster, *soon} - {"members.pem", "users.pem"}


def test_an_authority_is_replaced_in_three_steps(cluster, folder, rows, run):
    old = certificates(folder, "members.pem")
    run("renew", "--authority", "members")
    both = certificates(folder, "members.pem")
    assert both[1:] == old
    assert both[0] not in old
    refused = run("renew", "--drop-old", status=ExitStatus.FAILED)
    assert "broker-b-0.pem is signed by an old authority" in refused
    assert set(rows("renew")) == {"broker-b-0.pem", "namesrv-n1.pem"}
    assert is_issued_by(certificates(folder, "broker-b-0.pem")[0], both[:1])
    assert set(rows("renew", "--drop-old")) == {"members.pem"}
    assert certificates(folder, "members.pem") == both[:1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--member", "broker/b-0"), "host names are missing"),
        (("--member", "cook/b-0=x"), "kinds are broker"),
        (("--member", "broker/../x=y"), "expected KIND/NAME"),
        (("--user", "a/b"), "letters, digits"),
    ],
)
def test_wrong_names(run, folder, arguments, text):
    assert text in run("init", "--cluster", "main", *arguments, status=ExitStatus.USAGE)
    assert not folder.exists()


def test_what_holds_no_certificate_is_told_in_our_words(folder, capsys):
    folder.write_text("hello")
    assert main(["tls", "show", str(folder)]) == ExitStatus.FAILED
    assert f"{folder.name} has no certificate that can be read" in capsys.readouterr().err


def test_a_folder_without_an_authority(run, folder):
    folder.mkdir()
    assert "ariane tls init" in run("show", status=ExitStatus.FAILED)
    (folder / "members.pem").write_text("no certificate")
    assert "members.pem" in run("show", status=ExitStatus.FAILED)
