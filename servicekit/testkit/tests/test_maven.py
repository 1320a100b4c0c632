"""Java programs of others: fetched once, and again when their list has changed."""

import os

import pytest

from ariane_testkit.programs.maven import MavenUnavailable, class_path

MAVEN = """#!/bin/sh
echo "$@" >> "{calls}"
for word in "$@"; do
  case "$word" in -DoutputDirectory=*) touch "${{word#*=}}/queue.jar" ;; esac
done
[ ! -e "{broken}" ] || {{ echo "no such coordinates"; exit 1; }}
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    script = MAVEN.format(calls=tmp_path / "calls", broken=tmp_path / "broken")
    for name, text in (("mvn", script), ("java", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_jars_are_fetched_once_and_again_for_another_list(tmp_path, programs):
    del programs
    pom, jars = tmp_path / "pom.xml", tmp_path / "jars"
    pom.write_text("<project/>")
    assert class_path(pom, jars) == class_path(pom, jars) == f"{jars}/*"
    assert (jars / "queue.jar").exists()
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    os.utime(pom, (2e9, 2e9))
    class_path(pom, jars)
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_missing_jars_and_programs_are_reported(tmp_path, programs, monkeypatch):
    pom = tmp_path / "pom.xml"
    pom.write_text("<project/>")
    (tmp_path / "broken").touch()
    with pytest.raises(MavenUnavailable, match="cannot be fetched: no such coordinates"):
        class_path(pom, tmp_path / "jars")
    (programs / "java").unlink()
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(MavenUnavailable, match="java is not installed"):
        class_path(pom, tmp_path / "jars")
