"""A broker in a process of its own whose logins last seconds: ``python -m brief_login_broker``.

It is the real broker. Only this module makes logins so short: that of every other process lasts an
hour, and is renewed by its client after half of that.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import main
from ariane_servicekit.security.identity import logins

LIFE_MS: Final = 6_000

if __name__ == "__main__":
    logins.LOGIN_MS_MAX = LIFE_MS  # type: ignore[misc]  # that is the purpose of this module
    sys.exit(main(BrokerSettings, compose, sys.argv[1:], os.environ))
