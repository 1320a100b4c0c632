import pytest

from ariane_broker.clients.membership import ConsumeModel, Membership
from ariane_broker.clients.subscription import (
    FilterExpression,
    FilterLanguage,
    Subscription,
    parse_tags,
    wanted_tag_codes,
)
from ariane_record import tag_code
from ariane_servicekit import ServiceError


@pytest.mark.parametrize("text", ["", "*", " * ", "  "])
def test_everything(text):
    assert parse_tags(text) is None
    assert wanted_tag_codes(FilterExpression(text=text)) is None


def test_tags_are_trimmed_and_told_apart():
    assert parse_tags(" a ||b|| c d ||a") == {"a", "b", "c d"}
    assert wanted_tag_codes(FilterExpression(text="a || b")) == {tag_code("a"), tag_code("b")}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a || ", 4),
        ("|| a", 0),
        ("a |||| b", 4),
        ("a || *", 4),
        ("a | b", 0),
        ("a || b\x00", 4),
        ("x" * 4097, 4096),
        (" || ".join(f"t{number}" for number in range(129)), 0),
    ],
)
def test_what_cannot_be_understood_is_an_error_with_its_place(text, position):
    with pytest.raises(ServiceError) as raised:
        parse_tags(text)
    assert raised.value.row.name == "FILTER_EXPRESSION_INVALID"
    assert raised.value.metadata["position"] == str(position)


@pytest.mark.parametrize("language", [FilterLanguage.SQL92, FilterLanguage.UPLOADED])
def test_other_languages_are_not_pretended(language):
    with pytest.raises(ServiceError) as raised:
        wanted_tag_codes(FilterExpression(language, "a = 1"))
    assert raised.value.row.name == "FEATURE_NOT_AVAILABLE"


def membership(text="*", topic="orders", **fields):
    subscription = Subscription(topic, FilterExpression(text=text))
    return Membership(consumer_group="g", subscriptions=(subscription,), **fields)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (membership("a"), "'orders'"),
        (membership(topic="bills"), "'bills'"),
        (membership(model=ConsumeModel.BROADCASTING), "broadcasting"),
        (membership(strategy="sticky"), "sticky"),
        (membership(ordered=True), "order"),
    ],
)
def test_members_that_differ(other, word):
    assert word in membership().difference(other)
    assert other.difference(membership())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (membership("a||b"), membership(" b || a ")),
        (membership(""), membership("*")),
        (membership(zone="here"), membership(zone="there")),
    ],
)
def test_members_that_agree(one, other):
    assert one.difference(other) == ""
