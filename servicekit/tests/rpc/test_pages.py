from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_servicekit import PageRequest, ServiceError, take_page

KEYS = st.lists(st.tuples(st.text(max_size=5), st.integers(0, 9)), unique=True).map(sorted)


def page_of(entries, *, page_size=2, page_token="", scope="list", key=lambda entry: entry):
    return take_page(entries, key, page_size=page_size, page_token=page_token, scope=scope)


def reason_of(error) -> str:
    return error.value.row.name


@given(KEYS, st.integers(1, 10))
def test_pages_are_the_whole_list(entries, page_size):
    seen, token = [], ""
    while True:
        page = page_of(entries, page_size=page_size, page_token=token)
        assert len(page.entries) <= page_size
        seen += page.entries
        token = page.next_page_token
        if not token:
            break
        assert len(page.entries) == page_size
    assert seen == entries


@given(KEYS, KEYS)
def test_entries_that_stay_are_listed_once_while_the_list_changes(before, after):
    first = page_of(before)
    if not first.next_page_token:
        return
    rest = page_of(after, page_size=1000, page_token=first.next_page_token).entries
    last = first.entries[-1]
    assert list(rest) == [entry for entry in after if entry > last]


def test_sizes():
    numbers = [(number,) for number in range(1500)]
    assert len(page_of(numbers, page_size=0).entries) == 100
    assert len(page_of(numbers, page_size=1000).entries) == 1000
    for page_size in (-1, 1001):
        with pytest.raises(ServiceError) as error:
            page_of(numbers, page_size=page_size)
        assert reason_of(error) == "FIELD_INVALID"


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def forged(*content) -> str:
    return encoded(json.dumps(content))


@pytest.mark.parametrize(
    "token",
    [
        *("x", "ü", "!!!!", encoded("{}"), encoded("7"), encoded("[" * 100_000)),
        *(forged(), forged("other", "a", 1), forged("list"), forged("list", 1, "a")),
        *(forged("list", "a", [1]), forged("list", "a", None), encoded('["list", "a", true]')),
    ],
    ids=lambda token: token[:12],
)
def test_tokens_of_others_are_refused(token):
    with pytest.raises(ServiceError) as error:
        page_of([("a", 1), ("b", 2)], page_token=token)
    assert reason_of(error) == "PAGE_TOKEN_INVALID"


def test_a_token_belongs_to_its_list():
    token = page_of([("a", 1), ("b", 2), ("c", 3)]).next_page_token
    with pytest.raises(ServiceError):
        page_of([("a", 1)], page_token=token, scope="another list")


def test_a_list_that_a_database_cuts_has_the_same_pages():
    entries = [("a", 1), ("b", 2), ("c", 3)]

    def cut(token, page_size=2, kinds=(str, int)):
        request = PageRequest.of(page_size=page_size, page_token=token, scope="list", kinds=kinds)
        begin = 0 if request.last is None else entries.index(request.last) + 1
        return request.page_of(entries[begin : begin + request.limit + 1], lambda entry: entry)

    first = cut("")
    assert first == page_of(entries)
    last = cut(first.next_page_token)
    assert (last.entries, last.next_page_token) == ([("c", 3)], "")
    assert cut("", page_size=3).next_page_token == ""
    for wrong in ({"token": "x"}, {"token": first.next_page_token, "kinds": (int, str)}):
        with pytest.raises(ServiceError) as error:
            cut(**wrong)
        assert reason_of(error) == "PAGE_TOKEN_INVALID"
    with pytest.raises(ServiceError) as error:
        cut("", page_size=1001)
    assert reason_of(error) == "FIELD_INVALID"
