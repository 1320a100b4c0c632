"""The page of formats names every file that brokers write beside the log."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("services/broker/src", "storage/src/ariane_storage")
EXAMPLES = {"x.json"}


def test_every_state_file_is_on_the_page_of_formats():
    page = (ROOT / "docs/formats.md").read_text()
    tree = page.partition("## The store folder")[2].partition("```\n\n")[0]
    named = set(re.findall(r"[\w-]+\.json", tree))
    written = {
        name
        for folder in SOURCES
        for source in (ROOT / folder).rglob("*.py")
        if "testing" not in source.parts
        for name in re.findall(r'"(?:config/)?([A-Za-z-]+\.json)"', source.read_text())
    }
    assert written - EXAMPLES == named
