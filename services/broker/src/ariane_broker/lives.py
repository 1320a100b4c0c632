"""The lives of a broker process: primary and replica in turn, on one store and one address.

::

    without replica_set_url      composed once
    with it                      replica --elected--> primary --deposed--> replica ...

Each change stops everything and opens the store again, so that the new life begins like a started
broker: it loads the state, walks the log, and continues unfinished work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ariane_broker.app import compose_from, on_this_machine
from ariane_broker.environment import Environment
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import Service, StopRequest

if TYPE_CHECKING:
    from ariane_broker.replica_app import WonElection


class BrokerLives:
    """Builds each life, depending on how the one before ended."""

    def __init__(
        self, environment_of: Callable[[BrokerSettings, StopRequest], Environment] = on_this_machine
    ) -> None:
        """``environment_of``: gives what each life gets from its machine."""
        self._environment_of = environment_of
        self._won: WonElection | None = None

    def compose(self, settings: BrokerSettings, stop: StopRequest) -> Service:
        """Build the broker as primary or as replica."""
        environment = self._environment_of(settings, stop)
        if not settings.replica_set_url.get_secret_value():
            return compose_from(environment)
        won, self._won = self._won, None
        if won is not None:
            return compose_from(environment, won.elected, won.close_row)
        # A broker without replicas need not load the modules for databases.
        from ariane_broker.replica_app import compose_replica  # noqa: PLC0415

        return compose_replica(environment, self._keep)

    def _keep(self, won: WonElection) -> None:
        self._won = won
