import hashlib

import pytest

from ariane.common.v1.subscription_pb2 import FILTER_KIND_UPLOADED
from ariane_sdk import Uploaded, sync
from ariane_sdk.checks.message_filter import message_filter
from ariane_sdk.errors import FilterIllegal


@pytest.mark.parametrize("text", ["late@0123456789ab", "a-B_9@" + "0123456789abcdef" * 4])
def test_a_name_and_a_version(text):
    subscription = message_filter(Uploaded(text)).to_wire("flights")
    assert (subscription.topic, subscription.filter.kind) == ("flights", FILTER_KIND_UPLOADED)
    assert subscription.filter.text == text
    assert sync.Uploaded is Uploaded


@pytest.mark.parametrize(
    "text",
    [
        *("", "late", "late@", "late@1", "late@0123456789aB", "@0123456789ab", "a b@0123456789ab"),
        *("late@0123456789a", "late@" + "0" * 65, "late@0123456789ab\n", None, 7, "x" * 121 + "@"),
    ],
)
def test_nothing_else(text):
    with pytest.raises(FilterIllegal, match="name@version"):
        Uploaded(text)


def test_a_filter_by_its_source_is_named_by_what_it_says():
    text = "def matches(message): return True"
    one, same = Uploaded.source(text), Uploaded.source(text.encode())
    digits = hashlib.sha256(text.encode()).hexdigest()
    assert one == same == Uploaded(f"source-{digits[:12]}@{digits}")
    assert Uploaded.source(text, name="late").filter_version == f"late@{digits}"
    assert text not in repr(one)
    for wrong in "", b"", None:
        with pytest.raises(FilterIllegal, match="text or bytes"):
            Uploaded.source(wrong)
    with pytest.raises(FilterIllegal, match="is no text"):
        Uploaded.source("half = '\ud800'")
    with pytest.raises(FilterIllegal, match="is expected"):
        Uploaded.source(text, name="two words")
