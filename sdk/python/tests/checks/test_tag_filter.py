import pytest

from ariane_sdk import errors
from ariane_sdk.checks.tag_filter import TagFilter


@pytest.mark.parametrize("expression", ["*", "", "  * "])
def test_all_messages(expression):
    everything = TagFilter.parse(expression)

    assert everything.text == "*"
    assert everything.matches("")
    assert everything.matches("created")


def test_tags_are_compared_by_name():
    tags = TagFilter.parse("created||  paid ")

    assert tags.matches("created")
    assert tags.matches("paid")
    assert not tags.matches("Paid")
    assert not tags.matches("")


def test_one_spelling_for_one_meaning():
    assert TagFilter.parse("b || a").text == TagFilter.parse("a||b||a").text == "a || b"


@pytest.mark.parametrize("expression", ["a ||", "|| a", "a || * ", "||", "a|b"])
def test_nonsense_is_refused(expression):
    with pytest.raises(errors.FilterIllegal):
        TagFilter.parse(expression)


def test_strangers_with_the_same_hash_are_kept_out():
    # "Aa" and "BB" share Java's hash: the broker lets both through.
    assert not TagFilter.parse("Aa").matches("BB")
