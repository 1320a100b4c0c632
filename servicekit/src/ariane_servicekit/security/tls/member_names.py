"""Names in certificates: ``ariane://CLUSTER/KIND/NAME``, one for each certificate of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ariane_servicekit.security.caller import MemberKind

SCHEME: Final = "ariane://"
USER: Final = "user"
"""The kind of users; all other kinds are members of the cluster."""

WORD: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}"
USER_WORD: Final = r"[A-Za-z0-9_-]{1,120}"
_MEMBER: Final = re.compile(f"{SCHEME}({WORD})/({WORD})/({WORD})")
_KINDS: Final = {kind.value: kind for kind in MemberKind}


@dataclass(frozen=True, slots=True)
class MemberName:
    """A process of a cluster, as its certificate names it."""

    cluster: str
    """Its cluster."""
    kind: MemberKind
    """Which process it is."""
    name: str
    """Its name within that kind: of a broker, the broker name that routes tell."""

    @classmethod
    def parse(cls, uri: str) -> MemberName | None:
        """Read a URI; None if it names no member."""
        found = _MEMBER.fullmatch(uri)
        if found is None or found[2] not in _KINDS:
            return None
        return cls(found[1], _KINDS[found[2]], found[3])

    def __str__(self) -> str:
        return f"{SCHEME}{self.cluster}/{self.kind.value}/{self.name}"


def user_uri(cluster: str, user: str) -> str:
    """The name in the certificate of a user."""
    return f"{SCHEME}{cluster}/{USER}/{user}"


def is_word(text: str) -> bool:
    """Whether a text can be the name of a cluster or of a member in a certificate."""
    return re.fullmatch(WORD, text) is not None


def is_user_word(text: str) -> bool:
    """Whether a text can be the name of a user."""
    return re.fullmatch(USER_WORD, text) is not None
