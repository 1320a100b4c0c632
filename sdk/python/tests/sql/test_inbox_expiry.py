"""An inbox that forgets: keys are kept for a time, and the table needs no care."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.sql import Inbox
from ariane_sdk.sql._tables import INBOX
from sdk.python.tests.sql.test_sql_inbox import DAY, engine, handle, messages

__all__ = ["engine"]

WEEK = timedelta(days=7)


class Calendar:
    day = 0

    def __call__(self):
        return DAY + timedelta(days=self.day)


def kept(engine):
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(INBOX))


def test_keys_are_forgotten_after_their_time_and_not_before(engine):
    today = Calendar()
    inbox = Inbox("billing", keep=WEEK, now=today)
    assert handle(engine, inbox, messages("a", "b")) == ["a", "b"]
    handle(engine, Inbox("shipping", now=today), messages("a"))
    today.day = 7
    assert handle(engine, inbox, messages("a", "c")) == ["c"]
    assert kept(engine) == 4
    today.day = 8
    # A key that is too old is fresh again, whether it was deleted before or not; others go.
    assert handle(engine, inbox, messages("a", "c")) == ["a"]
    assert kept(engine) == 3
    assert handle(engine, inbox, messages("a")) == []
    assert handle(engine, Inbox("shipping", now=today), messages("a")) == []


def test_a_backlog_of_old_keys_shrinks_with_each_take(engine):
    today = Calendar()
    handle(engine, Inbox("billing", now=today), messages(*map(str, range(100))))
    today.day = 30
    inbox = Inbox("billing", keep=WEEK, now=today)
    for take in range(1, 11):
        handle(engine, inbox, messages(*(f"new-{take}-{each}" for each in range(10))))
        assert kept(engine) == max(0, 100 - 20 * take) + 10 * take


def test_a_rolled_back_take_forgets_nothing(engine):
    today = Calendar()
    handle(engine, Inbox("billing", now=today), messages("a", "b"))
    today.day = 30
    with Session(engine) as session:
        taken = Inbox("billing", keep=WEEK, now=today).take(session, messages("a"))
        assert [message.unique_id for message in taken] == ["a"]
        session.rollback()
    assert kept(engine) == 2


@pytest.mark.parametrize("keep", [timedelta(0), timedelta.max, 7])
def test_an_invalid_time_is_refused(keep):
    with pytest.raises(IllegalArgument, match="keep"):
        Inbox("billing", keep=keep)
