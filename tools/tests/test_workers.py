"""Whoever runs a test of a file runs the whole file, so that what it starts is started once."""

from __future__ import annotations

import pytest

from conftest import shared_scope

ran: list[str] = []


@pytest.mark.parametrize("_", range(12))
def test_a_file_runs_on_one_worker(request, _):
    asked = [item.name for item in request.session.items if item.path == request.path]
    ran.append(request.node.name)
    assert ran == asked[: len(ran)]


def test_files_that_share_a_cluster_run_on_one_worker():
    asking = "async def test_a(cluster, topic):\n"
    assert shared_scope("sdk/python/tests/test_a.py", asking) == "sdk/python/tests"
    asking_too = "def test_a(fragile_cluster):\n"
    assert shared_scope("sdk/python/tests/test_a.py", asking_too) == "sdk/python/tests"
    assert shared_scope("sdk/python/tests/test_b.py", "def test_b():\n") == (
        "sdk/python/tests/test_b.py"
    )
    assert shared_scope("storage/tests/test_c.py", asking) == "storage/tests/test_c.py"
    assert shared_scope("spark/pipelines/tests/test_d.py", "mark.spark") == "spark"
    assert shared_scope("services/admin/tests/commands/test_e.py", "") == "services/admin/tests"
