"""The naming room: what name servers are told."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from ariane_broker.environment import Environment
from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_broker.naming.filter_servers import FilterServers
from ariane_broker.naming.name_server_links import name_server_link
from ariane_broker.naming.registration import Registration
from ariane_broker.state.room import StateRoom
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import Address


@dataclass(frozen=True, slots=True)
class NamingRoom:
    """What name servers are told."""

    announcement: BrokerAnnouncement
    registration: Registration
    filter_servers: FilterServers


def standing_in(
    environment: Environment, topics: TopicTable, route_id: int, address: Address
) -> Registration:
    """The standing of a replica whose set has no primary.

    Args:
        environment: What it is given.
        topics: What it knows of topics.
        route_id: The broker id that routes show.
        address: Where it is reached.
    """
    incarnation = secrets.token_hex(8)
    announcement = BrokerAnnouncement(environment.settings, topics, incarnation, broker_id=route_id)
    announcement.listen_on(address)
    return _registration(environment, announcement)


def _registration(environment: Environment, announcement: BrokerAnnouncement) -> Registration:
    """The standing of what is announced with all name servers."""
    settings = environment.settings
    links = [
        name_server_link(
            address,
            announcement,
            environment.clock,
            heartbeat_seconds=settings.name_server_heartbeat_s,
        )
        for address in settings.name_servers
    ]
    return Registration(links, wait_seconds=settings.name_server_wait_s)


def naming_room(environment: Environment, state: StateRoom, *, epoch: int = 0) -> NamingRoom:
    """What name servers are told.

    Args:
        environment: What the broker is given.
        state: Its topics.
        epoch: In which it is primary; 0 where it has no replicas.
    """
    settings = environment.settings
    announcement = BrokerAnnouncement(settings, state.topics, secrets.token_hex(8), epoch=epoch)
    registration = _registration(environment, announcement)
    filter_servers = FilterServers(
        announcement,
        registration.announce,
        environment.clock,
        silence_s=settings.filter_server_silence_s,
    )
    return NamingRoom(announcement, registration, filter_servers)
