"""Clients on the stage."""

from __future__ import annotations

from pathlib import Path

import pytest
from official import OFFICIAL
from our_sdk import OurSdk
from stage import Actor, Stage, signing


def started(name: str, endpoints: str, stage: Stage, home: Path, **words: object) -> Actor:
    """A client that speaks to some endpoints; skips where its toolchain is missing."""
    if name == "ariane":
        return Actor(name, OurSdk(stage.cluster.name_servers.split(",")))
    client = OFFICIAL[name]
    if client.missing:
        pytest.skip(f"{client.missing} is not on this machine")
    program = client.start(home)
    program.ask("connect", endpoints=endpoints, **{**signing(), **words})
    return Actor(name, program, client.lacks, client.blind)
