"""What archives carry besides code, and what an index would say of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools import dist
from tools.workspace import ROOT, home_page, members

PUBLISHED = [member for member in members() if not member.is_private]
SHARED = {name: (ROOT / name).read_bytes() for name in dist.SHARED}


CLIENT_VERSIONS = {
    "sdk/go/ariane/client.go": r'const Version = "(.+)"',
    "sdk/java/pom.xml": r"<artifactId>ariane-client</artifactId>\s*<version>(.+)</version>",
    "sdk/java/src/main/java/mq/ariane/client/Client.java": r'VERSION = "(.+)"',
    "sdk/typescript/package.json": r'"version": "(.+)"',
    "sdk/typescript/src/client.ts": r'VERSION = "(.+)"',
    # What new users are told to install.
    "sdk/go/README.md": r"go get \S+@v(\S+)",
    "sdk/java/README.md": r"<artifactId>ariane-client</artifactId>\s*<version>(.+)</version>",
    "sdk/typescript/README.md": r"arianemq-client-([\d.]+)\.tgz",
}
"""Where the clients in other languages say theirs."""


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    dist.build(folder)
    return folder


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def test_pages_of_indexes_lead_to_the_repository():
    text = (
        "[a](../../docs/filters.md#x) ![p](../../docs/pictures/console.png) [f](examples)"
        " [w](https://example.org/a) [h](#here)"
    )
    home = "https://h.example"
    assert dist.whole_links(text, ROOT / "sdk/python", home) == (
        f"[a]({home}/blob/main/docs/filters.md#x)"
        f" ![p]({home}/raw/main/docs/pictures/console.png)"
        f" [f]({home}/tree/main/sdk/python/examples)"
        " [w](https://example.org/a) [h](#here)"
    )


def test_every_archive_has_addresses_and_no_link_that_leads_nowhere(archives):
    for wheel in archives.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            [name] = [each for each in file.namelist() if each.endswith(".dist-info/METADATA")]
            said = file.read(name).decode()
        assert f"Project-URL: Homepage, {home_page()}\n" in said, wheel.name
        assert re.findall(r"\]\((?!\w+://|#)[^)]*\)", said) == [], wheel.name


def test_all_members_and_the_changelog_have_one_version():
    newest = re.search(r"^## (\d+\.\d+\.\d+)", SHARED["CHANGELOG.md"].decode(), re.MULTILINE)
    assert newest
    assert {member.project["version"] for member in members()} == {newest[1]}
    for name, pattern in CLIENT_VERSIONS.items():
        [version] = re.findall(pattern, (ROOT / name).read_text())
        assert version == newest[1], name


def test_every_published_member_says_who_what_and_for_which_python():
    for member in PUBLISHED:
        project, name = member.project, member.project["name"]
        assert project["license"] == "Apache-2.0", name
        assert project["readme"] == "README.md", name
        assert project["authors"] == [{"name": "The ArianeMQ authors"}], name
        assert project["keywords"], name
        for version in ("3.11", "3.12", "3.13", "3.14"):
            said = f"Programming Language :: Python :: {version}"
            assert said in project["classifiers"], name
        assert "Typing :: Typed" in project["classifiers"], name


def test_the_java_client_says_what_maven_central_asks_for():
    names = {"m": "http://maven.apache.org/POM/4.0.0"}
    project = ET.parse(ROOT / "sdk/java/pom.xml").getroot()  # noqa: S314  Ours.
    for path in (
        *("groupId", "artifactId", "version", "name", "description", "url"),
        *("licenses/license/name", "licenses/license/url", "scm/connection", "scm/url"),
        *("developers/developer/name", "developers/developer/organization"),
    ):
        place = "/".join(f"m:{each}" for each in path.split("/"))
        said = (project.findtext(place, namespaces=names) or "").strip()
        assert said, path
        # Addresses of the project are those of whoever releases it: one line of the file.
        assert "licenses" in path or "//" not in said, path
    home = project.findtext("m:properties/m:home", namespaces=names)
    assert home == home_page()
    plugins = {each.text for each in project.findall(".//m:artifactId", names)}
    assert {"maven-source-plugin", "maven-javadoc-plugin", "maven-gpg-plugin"} <= plugins


def test_the_node_client_says_who_and_what():
    package = json.loads((ROOT / "sdk/typescript/package.json").read_text())
    assert package["license"] == "Apache-2.0"
    assert package["types"] == package["exports"]["."]["types"]
    assert set(SHARED) <= set(package["files"])
    # Packages with a scope are private unless they say this.
    assert package["publishConfig"] == {"access": "public"}
    for said in ("description", "author", "keywords", "engines"):
        assert package[said], said


@pytest.mark.slow
def test_every_archive_carries_licence_changelog_and_readme(archives):
    for member in PUBLISHED:
        name = f"{member.project['name'].replace('-', '_')}-{member.project['version']}"
        with zipfile.ZipFile(archives / f"{name}-py3-none-any.whl") as wheel:
            assert wheel.read(f"{name}.dist-info/licenses/LICENSE") == SHARED["LICENSE"]
            head, _, shown = wheel.read(f"{name}.dist-info/METADATA").partition(b"\n\n")
        assert b"\nLicense-Expression: Apache-2.0\n" in head
        assert shown == (member.folder / "README.md").read_bytes()
        with tarfile.open(archives / f"{name}.tar.gz") as source:
            for shared, content in SHARED.items():
                packed = source.extractfile(f"{name}/{shared}")
                assert packed is not None, (name, shared)
                assert packed.read() == content


@pytest.mark.slow
def test_a_source_distribution_builds_the_same_wheel(archives, tmp_path):
    """Whoever packages it anew has the source distribution only, not the repository."""
    for member in PUBLISHED:
        name = f"{member.project['name'].replace('-', '_')}-{member.project['version']}"
        with tarfile.open(archives / f"{name}.tar.gz") as source:
            source.extractall(tmp_path, filter="data")
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
        subprocess.run(command, cwd=tmp_path / name, check=True, capture_output=True)
        wheel = f"{name}-py3-none-any.whl"
        rebuilt = (tmp_path / name / "dist" / wheel).read_bytes()
        assert rebuilt == (archives / wheel).read_bytes(), name


@pytest.mark.slow
def test_the_checker_of_an_index_takes_every_archive(archives, tmp_path):
    dist.check(archives)
    # And it does look: an archive whose README cannot be shown is refused.
    broken = tmp_path / "broken"
    broken.mkdir()
    [source] = archives.glob("ariane_sql92-*.whl")
    with zipfile.ZipFile(source) as whole, zipfile.ZipFile(broken / source.name, "w") as partial:
        for name in whole.namelist():
            content = whole.read(name)
            if name.endswith("METADATA"):
                content = content.replace(b"text/markdown", b"text/x-rst").replace(
                    b"\n\n", b"\n\n.. nonsense::\n\n", 1
                )
            partial.writestr(name, content)
    with pytest.raises(subprocess.CalledProcessError):
        dist.check(broken)
    # What images install lies beside ours, and is not ours to judge.
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    shutil.copy(source, foreign)
    (broken / source.name).rename(foreign / "pyyaml-6.0.3-py3-none-any.whl")
    dist.check(foreign)


@pytest.mark.slow
def test_a_folder_holds_one_version_of_each_member(tmp_path):
    old = tmp_path / "ariane_sql92-0.0.9-py3-none-any.whl"
    foreign = tmp_path / "somebody_else-1.0.tar.gz"
    old.touch()
    foreign.touch()
    assert dist.build(tmp_path) == len(PUBLISHED)
    assert not old.exists()
    assert foreign.exists()
    assert len(list(tmp_path.glob("*.whl"))) == len(PUBLISHED)
