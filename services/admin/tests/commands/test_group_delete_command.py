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
