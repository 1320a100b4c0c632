"""``ariane group delete`` against a real cluster."""

from ariane_admin.terminal.exits import ExitStatus


def test_a_group_goes_from_all_brokers(ariane, ariane_json):
    ariane("group", "retry", "gone-billing", "--attempts", "5")
    # Nobody is there to be asked.
    ariane("group", "delete", "gone-billing", status=ExitStatus.USAGE)
    gone = ariane_json("group", "delete", "gone-billing", "--yes")
    assert (gone["group"], gone["brokers"], gone["dead_letters"]) == ("gone-billing", 2, 0)
    assert gone["dead_letters_kept"] is False
    ariane("group", "delete", "gone-billing", "--yes", status=ExitStatus.NOT_FOUND)


def test_dry_runs_tell_counts_and_change_nothing(ariane, ariane_json, lines):
    ariane("topic", "create", "dry-orders")
    ariane("produce", "dry-orders", lines("a", "b", "c"))
    ariane("group", "retry", "dry-billing", "--attempts", "5")
    told = ariane_json("topic", "delete", "dry-orders", "--dry-run")
    assert (told["brokers"], told["messages"], told["dry_run"]) == (2, 3, True)
    told = ariane_json("group", "delete", "dry-billing", "--dry-run")
    assert (told["members"], told["dead_letters"], told["dry_run"]) == (0, 0, True)
    told = ariane_json("dead-letter", "redrive", "dry-billing", "--dry-run")
    assert (told["redriven"], told["redriven_before"]) == (0, 0)
    assert ariane_json("broker", "drain", "broker-a", "--dry-run")["dry_run"] is True
    [broker] = [b for b in ariane_json("broker", "list") if b["broker"] == "broker-a"]
    assert (broker["writable"], broker["wiped"]) == (True, False)
    assert sum(queue["messages"] for queue in ariane_json("topic", "show", "dry-orders")) == 3
    ariane("group", "delete", "dry-billing", "--yes")
    for missing in (
        ("topic", "delete", "dry-none"),
        ("group", "delete", "dry-none"),
        ("dead-letter", "redrive", "dry-none"),
    ):
        ariane(*missing, "--dry-run", status=ExitStatus.NOT_FOUND)
