"""The folder of certificates by the clock that it is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ariane_servicekit.security.tls.certificate_folder import CertificateFolder

MOMENT = datetime(2031, 5, 1, tzinfo=UTC)


def test_certificates_begin_and_are_renewed_by_the_clock_that_was_given(tmp_path):
    moments = [MOMENT]
    folder = CertificateFolder(tmp_path / "certificates", lambda: moments[-1])
    folder.make_authorities("main")
    file = folder.sign("ariane://main/user/anna", (), 40)

    def left():
        return {row.file: row.left(moments[-1]) for row in folder.rows()}

    assert left()[file] == timedelta(days=40)
    assert left()["users.pem"] > timedelta(days=365)
    month = timedelta(days=30)
    assert folder.renew(days=40, within=month) == []
    moments.append(MOMENT + timedelta(days=11))
    assert left()[file] == timedelta(days=29)
    assert folder.renew(days=40, within=month) == [file]
    assert left()[file] == timedelta(days=40)
    folder.replace_authority("users")
    assert folder.renew(days=40, within=month) == [file]
    assert folder.drop_old_authorities() == ["users.pem"]
