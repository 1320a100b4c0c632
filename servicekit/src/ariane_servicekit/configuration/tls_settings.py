"""Settings of a process's certificates: what it shows, and whom it trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TlsSettings(BaseModel):
    """The part of a service's settings that is about certificates."""

    model_config = ConfigDict(frozen=True)

    tls_certificate: Path | None = Field(
        None,
        description="Certificate of this process, PEM; ariane tls init makes it. It is shown to "
        "callers and to the processes that this one calls, and names cluster, kind and name of "
        "this process. Read again when it changes, like all files of TLS. Unset: plain text.",
    )
    tls_key: Path | None = Field(None, description="Private key of tls_certificate, PEM.")
    tls_members: Path | None = Field(
        None,
        description="Authority of the processes of the cluster, PEM (members.pem). Only who has a "
        "certificate that it signed itself is a process of the cluster.",
    )
    tls_users: Path | None = Field(
        None,
        description="Authority of users, PEM (users.pem). Unset: no user proves with a certificate "
        "who he is.",
    )
    tls_user_name: str = Field(
        "",
        pattern=r"^$|^[!-~]*\{user\}[!-~]*$",
        description="Which URI in a user's certificate names him: {user} stands for the name, * "
        "for any text without a slash. Empty: ariane://CLUSTER/user/{user}, as ariane tls writes "
        "it, with the cluster of tls_certificate.",
    )
    tls_oldest: Literal["1.3", "1.2"] = Field(
        "1.3", description="Oldest version of TLS that is spoken. 1.3: all that clients need."
    )

    @property
    def has_tls(self) -> bool:
        """Whether this process shows a certificate."""
        return self.tls_certificate is not None

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        given = [self.tls_certificate, self.tls_key, self.tls_members]
        if any(given) and not all(given):
            msg = "tls_certificate: it needs tls_key and tls_members, and they need it"
            raise ValueError(msg)
        if self.tls_users is not None and not self.has_tls:
            msg = "tls_users: it needs tls_certificate, tls_key and tls_members"
            raise ValueError(msg)
        return self
