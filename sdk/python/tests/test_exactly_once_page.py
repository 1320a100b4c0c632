"""``docs/exactly-once.md`` is run as it stands, from top to bottom."""

import ast
import asyncio
import re
from pathlib import Path
from types import FunctionType

from ariane_sdk import ClusterClient

PAGE = Path(__file__).parents[3] / "docs" / "exactly-once.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


async def test_the_page_runs(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("paid-orders", exists_ok=True)
    names = {}
    assert len(SNIPPETS) == 4
    async with asyncio.timeout(60):
        for snippet in SNIPPETS:
            text = snippet.replace("127.0.0.1:9876", cluster.name_servers)
            code = compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            running = FunctionType(code, names)()
            if running is not None:
                await running
    names["sessions"].kw["bind"].dispose()
    assert capsys.readouterr().out == "1 payment of 1250 cents\n"
