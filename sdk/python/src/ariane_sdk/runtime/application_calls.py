"""The application's functions: what they may raise."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")


def for_thread(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """A function of the application, for the threads of an executor.

    Futures carry no ``StopIteration``: who waits for such a call would wait for ever. Errors that
    are no ``Exception`` would pass by whoever handles failures of the function. Both become a
    RuntimeError, with the error as its cause; ``sys.exit()`` remains what it is.
    """

    @wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            raise as_failure(error) from error
        except (Exception, SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise as_failure(error) from error

    return call


def as_failure(error: BaseException) -> RuntimeError:
    """The ordinary error that stands for an unusual one of an application's function."""
    return RuntimeError(f"the application's function raised {text_of(error, repr)}")


def text_of(error: BaseException, to_text: Callable[[object], str] = str) -> str:
    """The text of an application's error, which may be any object: UTF-8 can carry it.

    Args:
        error: The error.
        to_text: ``str``, or ``repr`` for the type as well.
    """
    try:
        return to_text(error).encode(errors="backslashreplace").decode()
    except Exception as failure:  # noqa: BLE001 - an error without a text is one, too.
        return f"{type(error).__qualname__} without a text: {type(failure).__qualname__}"
