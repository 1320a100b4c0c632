"""The dead letters of groups, with blocking calls."""

from __future__ import annotations

from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S
from ariane_sdk.cluster import dead_letters as _dead_letters
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking, blocking_iterator
from ariane_sdk.security import CredentialsGiven, TlsGiven


class DeadLetters(BlockingClient[_dead_letters.DeadLetters]):
    """Reads the dead letters of groups, and sends them back."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
    ) -> None:
        """Set up; see ``ariane_sdk.DeadLetters``."""
        super().__init__(
            _dead_letters.DeadLetters(
                name_servers,
                call_timeout_s=call_timeout_s,
                tls=tls,
                credentials=credentials,
            )
        )

    chunks = blocking_iterator(_dead_letters.DeadLetters.chunks)
    read = blocking_iterator(_dead_letters.DeadLetters.read)
    redrive = blocking(_dead_letters.DeadLetters.redrive)
