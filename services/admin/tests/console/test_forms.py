"""Forms that hold more than they may, or come for ever, whatever their heads say."""

import asyncio

import pytest
from starlette.requests import Request

from ariane_admin.console import forms
from ariane_admin.console.forms import FormTooLarge, fields_of

URLENCODED = (b"content-type", b"application/x-www-form-urlencoded")


def request(*parts, headers=(URLENCODED,), ends=True):
    """A request whose body comes in parts, and does not end unless it is said to."""
    left = list(parts)
    taken = []

    async def receive():
        if not left and not ends:
            await asyncio.Event().wait()
        part = left.pop(0) if left else b""
        taken.append(len(part))
        return {"type": "http.request", "body": part, "more_body": bool(left) or not ends}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}
    made = Request(scope, receive)
    made.taken = taken
    return made


async def test_the_fields_of_a_form_are_read():
    assert await fields_of(request(b"a=1&b=%26", b"2&a=3"), 100) == {"a": "3", "b": "&2"}
    assert await fields_of(request(b"no form", headers=()), 100) == {}


async def test_a_form_that_does_not_say_how_long_it_is_ends_at_its_bound():
    """Fields of 5 MB each, a thousand of them, were read from whoever reached the port."""
    endless = request(*(b"a=" + b"x" * 998 for _ in range(1000)))
    with pytest.raises(FormTooLarge):
        await fields_of(endless, 10_000)
    assert sum(endless.taken) == 11_000
    said = request(b"a=1", headers=(URLENCODED, (b"content-length", b"10001")))
    with pytest.raises(FormTooLarge):
        await fields_of(said, 10_000)
    assert said.taken == []
    parts = b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\n", *([b"x" * 1000] * 100)
    multipart = request(*parts, headers=((b"content-type", b"multipart/form-data; boundary=b"),))
    with pytest.raises(FormTooLarge):
        await fields_of(multipart, 10_000)


async def test_a_form_that_never_ends_is_waited_for_no_longer(monkeypatch):
    monkeypatch.setattr(forms, "FORM_S_MAX", 0.01)
    with pytest.raises(TimeoutError):
        await fields_of(request(b"a=", ends=False), 100)
