"""``ariane group retry`` against a real cluster."""

import pytest

from ariane_admin.terminal.exits import ExitStatus


def test_the_retries_of_a_group_are_shown_and_changed(ariane, ariane_json):
    ariane("group", "retry", "r-nobody", status=ExitStatus.NOT_FOUND)
    rows = ariane_json("group", "retry", "r-billing", "--attempts", "5", "--waits", "500ms 10s 2h")
    assert [row["broker"] for row in rows] == ["broker-a", "broker-b"]
    assert {(row["attempts_max"], row["policy"], row["waits"]) for row in rows} == {
        (5, "table", "500ms 10s 2h")
    }
    ariane("group", "retry", "r-billing", "--growth", "5s, 90m", "--factor", "3")
    [row, _] = ariane_json("group", "retry", "r-billing")
    assert (row["attempts_max"], row["policy"]) == (5, "growth")
    assert row["waits"] == "5s to 90m, times 3"
    [row, _] = ariane_json("group", "retry", "r-billing", "--levels", "--attempts", "0")
    assert (row["attempts_max"], row["policy"]) == (0, "levels")
    assert row["ordered_attempts_max"] == "unlimited"
    [row, _] = ariane_json(
        "group", "retry", "r-billing", "--attempts", "unlimited", "--ordered-attempts", "5000"
    )
    assert (row["attempts_max"], row["ordered_attempts_max"]) == ("unlimited", 5000)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--waits", "soon"),
        ("--waits", ""),
        ("--growth", "5s"),
        ("--growth", "5s 2h", "--levels"),
        ("--attempts", "2147483648"),
        ("--factor", "3"),
        ("--waits", "1s", "--factor", "3"),
        ("--growth", "5s 2h", "--factor", "nan"),
        ("--waits", "9" * 400 + "s"),
    ],
)
def test_what_makes_no_sense(ariane, arguments):
    ariane("group", "retry", "r-any", *arguments, status=ExitStatus.USAGE)
