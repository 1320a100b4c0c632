"""Settings of the OpenID provider whose users a process knows."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from ariane_servicekit.configuration.tls_settings import TlsSettings

SAFE_ADDRESS: Final = r"^$|^https://[^@\s]+$|^http://(127\.0\.0\.1|localhost|\[::1\])[:/][^@\s]*$"
"""A URL without a password; over TLS, but for this machine."""


class OpenIdSettings(TlsSettings):
    """The part of a service's settings that is about tokens of an OpenID provider."""

    openid_issuer: str = Field(
        "",
        description="Issuer of tokens that users log in by, as the claim iss has it. Empty: none.",
    )
    openid_audience: str = Field(
        "", description="What tokens must be for, as their claim aud has it."
    )
    openid_keys_url: str = Field(
        "",
        pattern=SAFE_ADDRESS,
        description="Where the issuer's public keys are, as a JWK set. Nothing else is fetched, no "
        "redirection is followed; https beyond this machine.",
    )
    openid_user_claim: str = Field("sub", description="The claim that has the name of the user.")
    openid_groups_claim: str = Field(
        "groups", description="The claim with the groups of the user; each is a role here."
    )

    @model_validator(mode="after")
    def _openid_is_whole(self) -> Self:
        given = (self.openid_issuer, self.openid_audience, self.openid_keys_url)
        if any(given) and not all(given):
            msg = "openid_issuer: it needs openid_audience and openid_keys_url, and they need it"
            raise ValueError(msg)
        return self
