"""The tutorial is run cell by cell, and prints what it says it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = (Path(__file__).parents[3] / "docs" / "spark-tutorial.md").read_text()
CELL = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def test_every_cell_prints_what_stands_below_it(spark, local_cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    page = PAGE.replace("127.0.0.1:9876", local_cluster.name_servers)
    # Relative paths are Spark's, which stands where its Java process was started.
    page = page.replace('"archive"', f'"{tmp_path}/archive"')
    page = page.replace('"redrive"', f'"{tmp_path}/redrive"')
    page = page.replace('"checkpoints/', f'"{tmp_path}/checkpoints/')
    cells = CELL.findall(page)
    assert len(cells) == 13

    for code, expected in cells:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)  # noqa: S102 - our own page.
        assert printed.getvalue() == expected, code
