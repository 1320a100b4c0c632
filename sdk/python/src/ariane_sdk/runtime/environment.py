"""What the environment of the process says to clients."""

from __future__ import annotations

import os
from typing import Final

NAME_SERVERS: Final = "ARIANE_NAME_SERVERS"
CREDENTIALS: Final = "ARIANE_CREDENTIALS"
TLS_CA: Final = "ARIANE_TLS_CA"
TLS_CERTIFICATE: Final = "ARIANE_TLS_CERTIFICATE"
TLS_KEY: Final = "ARIANE_TLS_KEY"


def name_servers_of_environment() -> str:
    """The name servers that the environment names; empty if it names none."""
    return os.environ.get(NAME_SERVERS, "")


def tls_of_environment() -> tuple[str, str, str]:
    """Files of TLS: authority, certificate, key; empty where the environment names none."""
    certificate, key = os.environ.get(TLS_CERTIFICATE, ""), os.environ.get(TLS_KEY, "")
    return os.environ.get(TLS_CA, ""), certificate, key


def credentials_of_environment() -> str:
    """The file with the key of the user; empty if the environment names none."""
    return os.environ.get(CREDENTIALS, "")
