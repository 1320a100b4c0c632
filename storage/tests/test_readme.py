"""The first example of the page runs as it stands."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "README.md"


def test_the_example_of_the_page_stores_a_message_and_reads_it(tmp_path):
    example = PAGE.read_text().split("```python\n", 1)[1].split("```", 1)[0]
    folder = "/var/lib/ariane/broker-a"
    assert folder in example
    names: dict[str, object] = {}
    exec(example.replace(folder, str(tmp_path / "store")), names)  # noqa: S102 - our own page.
    read = names["read"]
    assert read.count == 1
    assert b"departed" in b"".join(read.chunks)
