"""``ariane user`` and ``ariane access`` over a real admin."""

from __future__ import annotations

import stat
import time

from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.security import KeyFile


def test_a_user_lives(ariane, ariane_json, admin_beside):
    made = ariane_json("user", "create", "anna", "--role", "ops", "--description", "on call")
    assert (made["user"], made["kind"], made["enabled"], made["roles"]) == (
        *("anna", "normal", True),
        ["ops"],
    )
    ariane("user", "create", "anna", status=ExitStatus.REFUSED)
    assert ariane_json("user", "update", "anna", "--disable", "--no-roles")["enabled"] is False
    assert ariane_json("user", "show", "anna")["roles"] == []
    assert [row["user"] for row in ariane_json("user", "list")] == ["anna"]
    ariane("user", "delete", "anna", "--yes")
    ariane("user", "show", "anna", status=ExitStatus.NOT_FOUND)


def test_rights_are_granted_tested_and_revoked(ariane, ariane_json, admin_beside):
    ariane("user", "create", "shop", "--role", "ops")
    ariane("access", "grant", "shop", "publish", "topic", "order-*", "--from", "10.0.0.0/8")
    ariane("access", "grant", "shop", "PUBLISH,GET", "topic", "order-9", "--deny")
    ariane("access", "grant", "role:ops", "GET", "cluster")
    assert ariane_json("access", "list", "shop") == [
        {
            "user": "shop",
            "decision": "allow",
            "actions": ["PUBLISH"],
            "resource": "topic",
            "name": "order-*",
            "networks": ["10.0.0.0/8"],
        },
        {
            "user": "shop",
            "decision": "deny",
            "actions": ["PUBLISH", "GET"],
            "resource": "topic",
            "name": "order-9",
            "networks": [],
        },
    ]
    assert len(ariane_json("access", "list", "--resource", "cluster")) == 1

    def test(*words, status=ExitStatus.DONE):
        return ariane("access", "test", "shop", *words, status=status)

    test("PUBLISH", "topic", "order-1", "--from", "10.1.1.1")
    test("PUBLISH", "topic", "order-1", status=ExitStatus.FAILED)
    test("PUBLISH", "topic", "order-9", "--from", "10.1.1.1", status=ExitStatus.FAILED)
    test("GET", "cluster")
    ariane("access", "revoke", "shop", "GET", "topic", "order-9")
    assert ariane_json("access", "list", "shop")[1]["actions"] == ["PUBLISH"]
    ariane("access", "revoke", "shop", "GET", "topic", "order-9", status=ExitStatus.NOT_FOUND)
    ariane("access", "grant", "nobody", "GET", "cluster", status=ExitStatus.NOT_FOUND)


def test_nothing_is_suggested_or_explained_in_an_open_cluster(ariane, ariane_json, admin_beside):
    assert ariane_json("access", "suggest", "shop") == []
    assert ariane_json("access", "suggest", "shop", "--refused") == []
    ariane("access", "explain", "no-such-id", status=ExitStatus.NOT_FOUND)


def test_lists_of_rocketmq_are_imported(ariane, ariane_json, admin_beside, lines):
    path = lines("#Subject", "User:alice CUSTOM Topic:test* PUB,SUB null ALLOW")
    shown = ariane_json("access", "import", path, "--dry-run")
    assert ariane_json("user", "list") == []
    for _ in range(2):
        assert ariane_json("access", "import", path) == shown
    [row] = ariane_json("access", "list", "alice")
    assert (row["actions"], row["name"]) == (["PUBLISH", "SUBSCRIBE"], "test*")


def test_a_key_is_made_once_and_its_private_half_stays(ariane, ariane_json, admin_beside, tmp_path):
    path = tmp_path / "anna.key"
    words = ("credential", "create", str(path), "--user", "anna")
    # Without the user nothing is left behind.
    assert "USER_NOT_FOUND" in ariane(*words, status=ExitStatus.NOT_FOUND)
    assert not path.exists()
    ariane("user", "create", "anna")
    made = ariane_json(*words, "--days", "7", "--description", "of work")
    assert (made["user"], made["kind"], made["description"]) == ("anna", "signing-key", "of work")
    assert made["created"] < made["expires"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = KeyFile(path)()
    assert key.credential_id == made["credential"]
    before = path.read_bytes()
    assert "never overwritten" in ariane(*words, status=ExitStatus.USAGE)
    assert path.read_bytes() == before
    [listed] = ariane_json("credential", "list", "anna")
    assert {"user": "anna", **listed} == made
    ariane("credential", "delete", "anna", made["credential"], "--yes")
    gone = ariane(
        "credential", "delete", "anna", made["credential"], "--yes", status=ExitStatus.NOT_FOUND
    )
    assert "has no credential" in gone
    assert ariane_json("credential", "list", "anna") == []
    ariane("user", "delete", "anna", "--yes")


def test_keys_of_rocketmq_are_taken_over(ariane, ariane_json, admin_beside, tmp_path):
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts:\n- accessKey: shop2\n  secretKey: hush\n")
    words = ("credential", "import-rocketmq", str(path))
    assert "USER_NOT_FOUND" in ariane(*words, status=ExitStatus.NOT_FOUND)
    ariane("access", "import", str(path))
    [made] = ariane_json(*words)
    assert (made["user"], made["credential"], made["kind"]) == ("shop2", "shop2", "rocketmq-key")
    assert "hush" not in ariane("credential", "list", "shop2", "-o", "json")
    assert "hush" not in ariane("audit", "list", "-o", "json")
    path.write_text("other:hush2\n")
    [other] = ariane_json(*words, "--user", "shop2")
    assert (other["user"], other["credential"]) == ("shop2", "other")
    far = ariane(*words, "--user", "shop2", "--admin", "10.0.0.7:1", status=ExitStatus.FAILED)
    assert "plain text" in far
    assert "hush" not in far
    ariane("user", "delete", "shop2", "--yes")


def test_quotas_are_set_shown_and_deleted(ariane, ariane_json, admin_beside):
    made = ariane_json("quota", "set", "sent-bytes", "user", "*", "1000")
    assert made == {
        "figure": "sent-bytes",
        "subject": "user",
        "name": "*",
        "limit": 1000,
        "per": "second",
        "holds_for": "each process",
    }
    ariane("quota", "set", "calls", "user", "anna", "5")
    ariane("quota", "set", "topics", "prefix", "shop-", "7")
    ariane("quota", "set", "credentials", "topic", "orders", "7", status=ExitStatus.USAGE)
    listed = [(row["name"], row["holds_for"]) for row in ariane_json("quota", "list")]
    assert listed == [("*", "each process"), ("anna", "each process"), ("shop-", "each broker")]
    shown = [(row["figure"], row["name"]) for row in ariane_json("quota", "show", "user", "anna")]
    assert shown == [("sent-bytes", "*"), ("calls", "anna")]
    ariane("quota", "delete", "calls", "user", "anna")
    ariane("quota", "delete", "calls", "user", "anna", status=ExitStatus.NOT_FOUND)
    while len(used := ariane_json("quota", "usage")) < 2:
        time.sleep(0.05)  # Brokers are told within seconds.
    assert used == [
        {
            "figure": "topics",
            "subject": "prefix",
            "name": "shop-",
            "broker": broker,
            "used": 0,
            "limit": 7,
            "per": "",
            "part": 0,
            "state": "",
            "refused": 0,
            "waited_s": 0,
            "age_s": None,
        }
        for broker in ("broker-a", "broker-b")
    ]
