"""Whoever runs a test of a file runs the whole file, so that what it starts is started once."""

from __future__ import annotations

import pytest

ran: list[str] = []


@pytest.mark.parametrize("_", range(12))
def test_a_file_runs_on_one_worker(request, _):
    asked = [item.name for item in request.session.items if item.path == request.path]
    ran.append(request.node.name)
    assert ran == asked[: len(ran)]
