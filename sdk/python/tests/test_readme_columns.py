"""The example of columns in the README runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
MARKED = re.compile(
    r"<!-- columns: [^>]*-->\n```python\n(.*?)```\n<!-- end of columns -->", re.DOTALL
)


def test_the_example_runs(cluster, capsys):
    [example] = MARKED.findall(README.read_text())
    assert "127.0.0.1:9876" in example
    assert '"orders"' in example

    code = example.replace("127.0.0.1:9876", cluster.name_servers)
    exec(code.replace('"orders"', '"columns-of-the-readme"'), {})  # noqa: S102 - our own text.

    printed = capsys.readouterr().out
    assert "b'a teapot'" in printed
    assert "['o-2']" in printed
