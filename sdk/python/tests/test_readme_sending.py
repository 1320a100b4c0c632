"""What the README shows of sending, requests and traces is run as it stands."""

import ast
import asyncio
import re
from pathlib import Path
from types import FunctionType

import pytest

from ariane_sdk import ClusterClient

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = [
    block
    for block in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    if re.search(
        r"ProducerSettings\(|producer\.request\(|producer\.recall\(|producer\.transaction\(", block
    )
]
PRINTED = {"request(": "b'HELLO'\n", "recall(": "taken back\n", "was_it_paid": "visible\n"}


def test_there_are_snippets():
    assert len(SNIPPETS) == 6


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
async def test_a_snippet_runs(cluster, snippet, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert '"127.0.0.1:9876"' in snippet
    async with ClusterClient(cluster.name_servers) as client:
        for topic in ("orders", "questions"):
            await client.create_topic(topic, exists_ok=True)
    text = snippet.replace("127.0.0.1:9876", cluster.name_servers)
    names = {}
    code = compile(text, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with asyncio.timeout(60):
        running = FunctionType(code, names)()
        if running is not None:
            await running

    printed = capsys.readouterr().out
    assert printed == "".join(text for call, text in PRINTED.items() if call in snippet)
