"""Hides passwords in texts that leave a process, such as those of databases in URLs."""

from __future__ import annotations

import re
from typing import Final

_IN_URL: Final = re.compile(
    r"""
      (?P<before>  ://[^\s:/@"']*:              )  [^\s/"']+(?=@)         # ://user:PASSWORD@host
    | (?P<name>    [?&;][\w.-]*(?:pass|pwd|token|secret|(?:api|access).?key)[\w.-]*=  )
        [^\s&;"'\\]+                                                     # ?password=...
    """,
    re.VERBOSE | re.IGNORECASE,
)


def without_passwords(text: str) -> str:
    """The text with ``***`` for each password of a URL: before the host, or in the query."""
    return _IN_URL.sub(lambda found: f"{found['before'] or found['name']}***", text)
