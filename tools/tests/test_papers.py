"""What the papers name is there: links, folders, files, verbs, words of the code."""

from __future__ import annotations

import re
import shlex

import pytest

from tools.papers import Paper, anchor_of
from tools.workspace import ROOT, members, repository_files

PAPERS = [Paper(ROOT, name) for name in repository_files() if name.endswith(".md")]

ARCHITECTURE = Paper(ROOT, "ARCHITECTURE.md")
CONTRIBUTING = Paper(ROOT, "CONTRIBUTING.md")

MODULE = re.compile(r"((?:ariane|pyspark)_\w+)/([\w/]+\.py)")
MEMBER_OF_CLASS = re.compile(r"([A-Z]\w+)\.([a-z]\w+)")


@pytest.fixture
def paper(tmp_path):
    def write(text: str, name: str = "docs/a.md") -> Paper:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return Paper(tmp_path, name)

    return write


def sources() -> dict[str, str]:
    """Where each package that people write lies, by import name."""
    return {
        package: str(member.folder.relative_to(ROOT) / "src" / package)
        for member in members()
        for package in member.packages
    }


def test_links_lead_somewhere():
    assert len(PAPERS) > 30
    broken = {paper.name: paper.broken_links() for paper in PAPERS}
    assert {name: links for name, links in broken.items() if links} == {}


def test_broken_links_are_found(paper):
    paper("# Über uns: a/b `c`\n", "docs/b.md")
    good = "[x](b.md) [y](b.md#über-uns-ab-c) [z](#here) ![p](../docs) [w](https://a.b/c#d)"
    fenced = "```text\n[x](none.md)\n```\n<!-- [x](none.md) -->\n"
    bad = "[x](c.md) [y](b.md#none) [z](#none) [w](../../a.md) [v](/etc/passwd)"
    found = paper(f"## Here\n{good}\n{fenced}\n{bad}\n")
    assert found.broken_links() == ["c.md", "b.md#none", "#none", "../../a.md", "/etc/passwd"]


def test_anchors_are_those_of_the_web():
    assert anchor_of("`ariane store`: dump, verify") == "ariane-store-dump-verify"
    assert anchor_of("What is refused?") == "what-is-refused"


def code_map() -> list[list[str]]:
    """The rows of ARCHITECTURE's code map: folder, package, purpose."""
    part = ARCHITECTURE.text.partition("## Code map")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \| (.*?) ?\| (.+?) \|$", part, re.MULTILINE)
    return [[cell.strip("`") for cell in row] for row in rows]


def test_code_map_names_what_is_there():
    rows = code_map()
    assert len(rows) > 10
    for folder, package, _ in rows:
        assert (ROOT / folder).is_dir(), folder
        if package.startswith("ariane_"):
            assert sources()[package].startswith(folder), package


def test_code_map_names_every_member():
    named = {package for _, package, _ in code_map()} | {"pyspark_ariane", "apache", "ariane"}
    assert named >= set(sources())


def test_modules_that_are_named_exist():
    folders = sources()
    named = [(paper.name, word) for paper in PAPERS for word in paper.words_of_code()]
    for place in named:
        for package, module in MODULE.findall(place[1]):
            assert (ROOT / folders[package] / module).is_file(), place


def test_classes_and_methods_of_the_tour_exist():
    tour = ARCHITECTURE.text.partition("## Reading the source")[2].partition("\n## ")[0]
    named = MEMBER_OF_CLASS.findall(tour)
    assert len(named) >= 2
    code = "\n".join(
        path.read_text() for folder in sources().values() for path in (ROOT / folder).rglob("*.py")
    )
    for owner, method in named:
        assert f"class {owner}" in code, owner
        assert f"def {method}(" in code, method


def test_verbs_of_contributing_are_those_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)) - {"help"}
    assert set(re.findall(r"^\| `make ([a-z-]+)` \|", CONTRIBUTING.text, re.MULTILINE)) == verbs


def test_verbs_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for paper in PAPERS:
        typed = [*paper.words_of_code(), *"\n".join(paper.blocks("sh")).splitlines()]
        for line in typed:
            if line.startswith("make "):
                words = shlex.split(line, comments=True)[1:]
                asked = [word for word in words if "=" not in word]
                assert set(asked) <= verbs, (paper.name, line)
