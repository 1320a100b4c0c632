"""What the README shows of consuming is run as it stands."""

import ast
import asyncio
import re
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from ariane_sdk import ClusterClient, Message, Producer

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = [
    block
    for block in re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    if "handle(" in block or "assign(" in block
]


def test_there_are_snippets():
    assert len(SNIPPETS) == 4


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
async def test_a_snippet_runs(cluster, snippet, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("orders", exists_ok=True)
    async with Producer(cluster.name_servers) as producer:
        # Many groups, so that every queue has something.
        results = await producer.send_batch(
            [
                Message(
                    "orders", b"x", tag="created", keys=(f"o-{number}",), message_group=str(number)
                )
                for number in range(200)
            ]
        )
    handled = []
    names = {"handle": handled.append, "message_id": results[0].message_id}
    text = snippet.replace("127.0.0.1:9876", cluster.name_servers)
    code = compile(text, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(code, CodeType)
    async with asyncio.timeout(60):
        await FunctionType(code, names)()

    assert handled or "broadcasting" in snippet or "assign(" in snippet
