"""Which certificate this process shows to those that it asks."""

from __future__ import annotations

import sys

from ariane_sdk import Tls

_KIT = "ariane_servicekit.security.tls.service_tls"


def own_tls() -> Tls | None:
    """The files of the admin service; None for a command, which has those of its environment."""
    # A command does not load the kit: that would take most of its time, and it has no certificate.
    if _KIT not in sys.modules:
        return None
    from ariane_servicekit.rpc.calls import current_caller  # noqa: PLC0415
    from ariane_servicekit.security.identity.identify import acting_text  # noqa: PLC0415
    from ariane_servicekit.security.tls.service_tls import MEMBER_TLS  # noqa: PLC0415

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
        acting_for=lambda: acting_text(current_caller()),
    )
