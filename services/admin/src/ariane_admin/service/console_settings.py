"""Settings of the console."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from ariane_servicekit import Address, CommaSeparated, ListenAddress, ServiceSettings
from ariane_servicekit.configuration.openid_settings import SAFE_ADDRESS
from ariane_servicekit.security.gate.access_mode import AccessMode


class ConsoleSettings(ServiceSettings):
    """The part of admin's settings that is about the console."""

    console_on: bool = Field(
        default=True,
        description="Whether to serve the console, which is a set of pages for a browser.",
    )
    console_listen: ListenAddress = Field(
        Address("127.0.0.1", 9882),
        description="Address of the console, host:port; with port 0 the system chooses one, and "
        "the log names it. HTTPS with tls_certificate, and HTTP without.",
    )
    console_hosts: CommaSeparated = Field(
        (),
        description="Host names under which browsers may open the console, besides 127.0.0.1, "
        "localhost and the host of console_listen, such as admin.example.com. Others are "
        "refused: otherwise a stranger's page could lead a browser here under a name of its own.",
    )
    console_origin: str = Field(
        "",
        pattern=r"^$|^https://[A-Za-z0-9.\[\]:-]+$",
        description="Where browsers reach the console, such as https://admin.example.com; links "
        "to sign in lead there. Its name needs not be in console_hosts. Empty: as console_hosts "
        "or console_listen say.",
    )
    console_certificate: Path | None = Field(
        None,
        description="Certificate of the console, PEM, of an authority that browsers trust. Unset: "
        "tls_certificate. Read again when it changes.",
    )
    console_key: Path | None = Field(None, description="Private key of console_certificate, PEM.")
    console_session_s_max: float = Field(
        28_800,
        ge=60,
        description="Seconds until somebody who has signed in to the console must do so again.",
    )

    openid_authorization_endpoint: str = Field(
        "",
        pattern=SAFE_ADDRESS,
        description="Where people sign in at the OpenID provider of openid_issuer to come to the "
        "console: the provider's authorization_endpoint. Empty: they do not.",
    )
    openid_token_endpoint: str = Field(
        "",
        pattern=SAFE_ADDRESS,
        description="Where admin asks who has signed in: the provider's token_endpoint.",
    )
    openid_client_id: str = Field("", description="The console's name at the OpenID provider.")
    openid_client_secret: SecretStr | None = Field(
        None,
        description="The console's secret at the OpenID provider. Unset: it has none, and PKCE is "
        "what holds.",
    )
    openid_scopes: str = Field(
        "openid",
        pattern=r"^openid( [!-~]+)*$",
        description="What is asked of the provider, such as openid groups.",
    )

    @model_validator(mode="after")
    def _sign_in_is_whole(self) -> Self:
        parts = (
            self.openid_authorization_endpoint,
            self.openid_token_endpoint,
            self.openid_client_id,
        )
        if any(parts) and not all(parts):
            msg = (
                "openid_authorization_endpoint: it needs openid_token_endpoint and "
                "openid_client_id, and they need it"
            )
            raise ValueError(msg)
        if any(parts) and not (self.openid_issuer and self.has_tls):
            msg = "openid_authorization_endpoint: it needs openid_issuer and tls_certificate"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _console_is_whole(self) -> Self:
        if any("*" in host for host in self.console_hosts):
            raise ValueError("console_hosts must be names, not patterns")
        if (self.console_certificate is None) != (self.console_key is None):
            raise ValueError("console_certificate: it needs console_key, and the reverse")
        if self.console_certificate is not None and not self.has_tls:
            raise ValueError("console_certificate: it needs tls_certificate as well")
        closed = self.has_tls and self.access is AccessMode.CLOSED
        if (
            self.console_on
            and not self.console_listen.is_loopback
            and not (self.insecure or closed)
        ):
            msg = (
                f"console_listen: {self.console_listen} is reachable from other machines; use "
                "127.0.0.1, or tls_certificate and access closed, or insecure to say that the "
                "network is closed"
            )
            raise ValueError(msg)
        return self
