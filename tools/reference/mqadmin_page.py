"""``docs/mqadmin.md``: every command of RocketMQ's mqadmin, and how it is said here."""

from __future__ import annotations

from typing import Final

from ariane_admin.compat.mqadmin import mqadmin_commands
from tools.reference.markdown import code, made_from, page, table

SOURCE: Final = "services/admin/src/ariane_admin/compat/mqadmin.toml"

_INTRODUCTION: Final = """
Each command of RocketMQ 5's `mqadmin`, and what does the same here. `ariane compat mqadmin COMMAND
...` fills in the values of a command line that you have:

```console
$ ariane compat mqadmin updateTopic -n 10.0.0.1:9876 -t orders -w 8
ariane topic create orders --queues 8 --name-servers 10.0.0.1:9876
ariane topic update orders --write-queues 8 --name-servers 10.0.0.1:9876
```
"""


def render() -> str:
    """The page."""
    rows = [
        (
            code(each.name),
            each.does,
            "<br>".join(map(code, each.equivalents(()))) or "-",
            each.note,
        )
        for each in mqadmin_commands().values()
    ]
    return page(
        "# From mqadmin to ariane",
        made_from(SOURCE),
        _INTRODUCTION,
        table(("mqadmin", "What it does", "Here", "To know"), rows),
    )
