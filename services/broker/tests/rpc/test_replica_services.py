"""What a replica offers can be served: each method has a rule that can be judged."""

from ariane_broker.rpc.not_primary import NotPrimary
from ariane_broker.rpc.rpc_services import CLIENTS, rpc_service
from ariane_servicekit.security.rules.method_rules import method_rules


def test_each_refusing_method_of_a_replica_has_a_rule_that_can_be_judged():
    services = [rpc_service(name, NotPrimary(lambda: "127.0.0.1:1")) for name in CLIENTS]
    rules = method_rules(
        (service.descriptor for service in services),
        asked={service.method(name) for service in services for name in service.asked},
        extractors={
            service.method(name): names
            for service in services
            for name, names in service.extractors.items()
        },
    )
    assert len(rules) == sum(len(service.descriptor.methods) for service in services)
