"""What users need to know of errors that Spark has wrapped."""

from __future__ import annotations

import re
from typing import Final

_OUR_MESSAGE: Final = re.compile(
    r"^(?:ariane_spark|ariane_sdk)\.errors(?:\.\w+)+: (.+)$", re.MULTILINE
)
_JAVA_MESSAGE: Final = re.compile(r"\AAn error occurred while calling .*\n: (.+)$", re.MULTILINE)


def message_of(error: Exception) -> str:
    """The part of Spark's error for the user: the text of our error in it, or its first line.

    Args:
        error: The error of Spark or its Java, perhaps with the trace of a worker in its text.
    """
    text = str(error)
    found = _OUR_MESSAGE.findall(text) or _JAVA_MESSAGE.findall(text)
    return str(found[-1]) if found else text.strip().partition("\n")[0]
