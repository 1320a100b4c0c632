"""Methods that take a plain session refuse an asynchronous one.

Its ``execute`` only returns a coroutine. Nobody awaits it, so nothing would be written, and the
application would commit its own changes without the message.
"""

from __future__ import annotations

from inspect import iscoroutinefunction

from ariane_sdk.errors import IllegalArgument


def refuse_asynchronous(session: object, instead: str) -> None:
    """Refuse a session whose statements have to be awaited.

    Args:
        session: What the application passed as a plain session.
        instead: What to await, as the application would write it.

    Raises:
        IllegalArgument: It is an ``AsyncSession``, an ``async_scoped_session`` or an
            ``AsyncConnection``.
    """
    if iscoroutinefunction(getattr(session, "execute", None)):
        raise IllegalArgument(
            f"nothing was done: {type(session).__name__} is asynchronous, and this method takes a"
            f" plain Session; await {instead}"
        )
