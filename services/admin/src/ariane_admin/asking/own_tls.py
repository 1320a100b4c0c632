"""Which certificate this process shows to those that it asks."""

from __future__ import annotations

from ariane_sdk import Tls
from ariane_servicekit.security.asking import user_name
from ariane_servicekit.security.service_tls import MEMBER_TLS


def own_tls() -> Tls | None:
    """The files of the admin service; None for a command, which has those of its environment."""
    member = MEMBER_TLS.get()
    if member is None:
        return None
    files = member.files
    # The processes judge the user who asked admin; what admin asks by itself is in its own name.
    return Tls(
        ca=files.members,
        certificate=files.certificate,
        key=files.key,
        oldest=files.oldest,
        acting_for=user_name,
    )
