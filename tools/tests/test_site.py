"""The site: what stands on it, where links lead, and what its judge refuses."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

import ariane_sdk
from ariane_sdk import sync
from tools.site.api import docstring, public_names, shown_names
from tools.site.api_themes import PAGES
from tools.site.judge import complaints
from tools.site.pages import SitePages, site_name, with_site_links

PUBLIC = (
    "ariane_sdk",
    "ariane_sdk.errors",
    "ariane_sdk.message_tables",
    "ariane_sdk.redis",
    "ariane_sdk.sql",
    "ariane_sdk.sync",
    "ariane_sdk.translation",
)
"""The public modules of the SDK, as ARCHITECTURE lists them."""

SHOWN = [name for page in PAGES.values() for name in shown_names(page)]


@pytest.mark.parametrize("module_name", PUBLIC)
def test_every_public_name_of_the_sdk_has_its_place(module_name):
    module, above = import_module(module_name), import_module("ariane_sdk")
    names = public_names(module_name)
    assert names
    for name in names:
        the_same = getattr(above, name, None) is getattr(module, name)
        home = "ariane_sdk" if the_same else module_name
        assert f"{home}.{name}" in SHOWN


def test_no_name_has_two_places():
    assert [name for name, count in Counter(SHOWN).items() if count > 1] == []


def test_what_the_reference_shows_is_described():
    assert [name for name in SHOWN if not docstring(name)] == []


def test_programs_without_a_loop_have_all_names_that_need_none():
    assert set(ariane_sdk.__all__) - set(sync.__all__) == {"__version__"}


@pytest.mark.parametrize(
    ("name", "on_the_site"),
    [
        ("docs/README.md", "index"),
        ("README.md", "overview"),
        ("docs/operations/README.md", "operations/index"),
        ("docs/errors.md", "errors"),
        ("ARCHITECTURE.md", "architecture"),
        ("sdk/python/README.md", "sdk/python/index"),
    ],
)
def test_pages_have_short_names(name, on_the_site):
    assert site_name(name) == on_the_site


def test_links_are_led_to_the_site_and_sources_keep_their_text():
    names = ("docs/a.md", "docs/operations/README.md", "sdk/README.md")
    pages = {name: site_name(name) for name in names}
    text = (
        "[a](../a.md#x) [s](../../sdk/README.md) ![p](../pictures/p.svg) [h](#here)"
        " [w](https://a.b/c) [code](../../storage/x.py)\n"
        "```text\n[a](../a.md)\n```\n"
    )
    assert with_site_links(text, "docs/operations/README.md", pages) == (
        "[a](../a.md#x) [s](../sdk/index.md) ![p](../pictures/p.svg) [h](#here)"
        " [w](https://a.b/c) code\n"
        "```text\n[a](../a.md)\n```\n"
    )


def test_every_page_is_in_the_navigation_once():
    pages = SitePages()
    led_to = Counter(
        page for name in pages.names for _, part in pages.navigation(name) for page in part
    )
    assert {name: count for name, count in led_to.items() if count > 1} == {}
    assert set(led_to) == {*pages.names.values(), "api/index"} - {"index"}


def test_judge_refuses_dead_links_foreign_things_and_missing_names(tmp_path):
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.test/x.js"></script><a href="https://elsewhere.test/">ok</a>'
        '<p id="here"><a href="b.html#there">1</a><a href="b.html#none">2</a>'
        '<a href="c.html">3</a><a href="#here">4</a><img src="none.png">'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    (tmp_path / "s.css").write_text('@import "https://cdn.test/font.css";')
    assert complaints(tmp_path, ["there", "pkg.Name"]) == [
        "a.html links to b.html#none: there is no such place",
        "a.html links to c.html: there is no such file",
        "a.html fetches https://cdn.test/x.js",
        "a.html links to none.png: there is no such file",
        "s.css fetches something from another place",
        "pkg.Name stands on no page",
    ]
