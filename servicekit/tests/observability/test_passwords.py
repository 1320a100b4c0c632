"""Passwords in texts for people."""

import pytest

from ariane_servicekit.observability.passwords import without_passwords

HIDDEN = {
    "postgresql+psycopg://shop:hunter2@db/x": "postgresql+psycopg://shop:***@db/x",
    "at postgresql://shop:hun@ter2@db:5432/x, again": "at postgresql://shop:***@db:5432/x, again",
    "redis://:hunter2@cache": "redis://:***@cache",
    "postgresql:///x?host=db&password=hunter2&user=shop": "postgresql:///x?host=db&password=***"
    "&user=shop",
    "postgresql:///x?sslpassword=hunter2": "postgresql:///x?sslpassword=***",
    "https://hooks.example.org/?Token=hunter2": "https://hooks.example.org/?Token=***",
    "http://collector:4317/?api-key=hunter2": "http://collector:4317/?api-key=***",
    '{"a":"x://u:hunter2@h","b":"x://v:hunter2@i"}': '{"a":"x://u:***@h","b":"x://v:***@i"}',
}
KEPT = ("127.0.0.1:10911", "http://collector:4317/v1", "10.0.0.7@4242#1f3c", "a: b@c", "?page=2")


@pytest.mark.parametrize("text", HIDDEN)
def test_passwords_of_urls_are_hidden(text):
    assert without_passwords(text) == HIDDEN[text]


def test_all_else_is_kept():
    assert list(map(without_passwords, KEPT)) == list(KEPT)
