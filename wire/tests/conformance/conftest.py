"""Puts this folder and the peers on the path, for the modules beside the tests."""

import asyncio
import sys
from pathlib import Path

import pytest
import uvloop

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "peers")]


@pytest.fixture(params=(asyncio, uvloop), ids=lambda each: each.__name__)
def loop_factory(request):
    """What makes an event loop."""
    return request.param.new_event_loop
