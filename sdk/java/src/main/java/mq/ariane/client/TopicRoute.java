package mq.ariane.client;

import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import mq.ariane.client.Producer.Place;
import mq.ariane.client.Producer.Queue;
import mq.ariane.namesrv.v1.BrokerRoute;
import mq.ariane.namesrv.v1.Route;
import mq.ariane.namesrv.v1.TopicPermission;

/**
 * Where a topic is.
 *
 * @param route what name servers said
 * @param writable the queues that take messages
 * @param denial what they said since: that there is no such topic, and no broker takes messages that could say more;
 *     else null
 */
record TopicRoute(Route route, List<Place> writable, ArianeException denial) {
    static TopicRoute of(Route route) {
        return new TopicRoute(route, route.getBrokersList().stream().flatMap(each -> places(route.getTopic(), each)).toList(),
                null);
    }

    /** The same after name servers have denied the topic, which may be too early. */
    TopicRoute denied(ArianeException denial) {
        return writable.isEmpty() && !denial.isRetriable() ? new TopicRoute(route, writable, denial) : this;
    }

    private static Stream<Place> places(String topic, BrokerRoute broker) {
        boolean takes = broker.getPermission() == TopicPermission.TOPIC_PERMISSION_WRITE
                || broker.getPermission() == TopicPermission.TOPIC_PERMISSION_READ_WRITE;
        if (!takes || !broker.containsAddresses(0)) {
            return Stream.of();
        }
        return IntStream.range(0, broker.getWriteQueueCount()).mapToObj(id ->
                new Place(new Queue(topic, broker.getBrokerName(), id), broker.getAddressesOrThrow(0)));
    }
}
