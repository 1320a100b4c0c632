"""Ports for servers of others."""

import socket

from ariane_testkit.free_ports import free_port


def test_all_ports_of_a_span_can_be_listened_on():
    first = free_port(3)
    servers = [socket.create_server(("127.0.0.1", first + step)) for step in range(3)]
    for server in servers:
        server.close()
