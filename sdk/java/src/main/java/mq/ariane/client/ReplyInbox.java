package mq.ariane.client;

import io.grpc.Status;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import mq.ariane.broker.v1.CreateTopicRequest;
import mq.ariane.broker.v1.ListQueueBoundsRequest;
import mq.ariane.broker.v1.PullMessagesRequest;
import mq.ariane.broker.v1.PullPosition;
import mq.ariane.broker.v1.PullServiceGrpc;
import mq.ariane.broker.v1.QueueMessages;
import mq.ariane.broker.v1.Topic;
import mq.ariane.broker.v1.TopicServiceGrpc;
import mq.ariane.common.v1.FilterExpression;
import mq.ariane.common.v1.FilterKind;
import mq.ariane.common.v1.Subscription;
import mq.ariane.namesrv.v1.BrokerIdentity;
import mq.ariane.namesrv.v1.BrokerRoute;

/**
 * Gives each reply to the request that waits for it. All replies of a cluster go to one topic, where the id of the client
 * that waits is their tag. It is read from its ends on, by one pull that is held at each broker, and by no group. Replies
 * that nobody waits for any more are dropped.
 */
final class ReplyInbox {
    private static final String GROUP = "ARIANE_REPLIES";
    private static final Duration HOLD = Duration.ofSeconds(5);
    /** Else one would wait long for brokers that are away; to create a topic that is there is harmless. */
    private static final Duration LOOK = Duration.ofMillis(500);
    private static final System.Logger LOG = System.getLogger(ReplyInbox.class.getName());

    /** Where to go on in a queue. */
    private record Position(long offset, long logEpoch) {}

    private record Reader(String topic, String brokerName) {}

    private final Client client;
    private final Map<String, CompletableFuture<mq.ariane.common.v1.Message>> waiting = new ConcurrentHashMap<>();
    private final Map<String, CompletableFuture<Void>> openings = new ConcurrentHashMap<>();
    private final Set<Reader> readers = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    ReplyInbox(Client client) {
        this.client = client;
    }

    /** Asks, and gives that the reply; when the asking is over, a later reply is dropped. */
    CompletableFuture<Message> expect(String correlationId,
            UnaryOperator<CompletableFuture<mq.ariane.common.v1.Message>> ask) {
        CompletableFuture<mq.ariane.common.v1.Message> reply = new CompletableFuture<>();
        waiting.put(correlationId, reply);
        if (closed) {
            close();
        }
        try {
            // By a thread of its own: whatever the application does next, those that read and send go on.
            CompletableFuture<Message> asking = ask.apply(reply).handleAsync(ReplyInbox::received, this::later);
            asking.whenComplete((said, failure) -> waiting.remove(correlationId));
            return asking;
        } catch (RuntimeException | Error failure) {
            waiting.remove(correlationId);
            throw failure;
        }
    }

    private static Message received(mq.ariane.common.v1.Message reply, Throwable failure) {
        if (failure != null) {
            throw failure instanceof CompletionException known ? known : new CompletionException(failure);
        }
        return Message.of(reply);
    }

    private void later(Runnable task) {
        try {
            client.aside(() -> {
                task.run();
                return null;
            });
        } catch (ArianeException isClosed) {
            task.run();
        }
    }

    /** How many requests wait. */
    int waiting() {
        return waiting.size();
    }

    /** Ends the wait of every request; nothing is read from then on. */
    void close() {
        closed = true;
        waiting.values().forEach(each -> each.completeExceptionally(Client.closedException().withOutcome(true)));
    }

    /** Has the replies of a cluster read from now on; makes their topic where it is missing. */
    CompletableFuture<Void> open(String cluster) {
        return openings.compute(cluster, (name, before) -> before == null || before.isCompletedExceptionally()
                ? client.shared(() -> begin(name, name + "_REPLY_TOPIC")) : before).exceptionally(error -> {
                    // It may be that of many, and nothing was sent.
                    throw ArianeException.of(error instanceof CompletionException ? error.getCause() : error, "").copy()
                            .withOutcome(false);
                });
    }

    private Void begin(String cluster, String topic) {
        Deadline deadline = client.deadline();
        List<BrokerRoute> brokers = brokers(cluster, topic, deadline);
        Map<String, CompletableFuture<Map<Integer, Position>>> ends = new HashMap<>();
        for (BrokerRoute broker : brokers) {
            ends.put(broker.getBrokerName(), client.aside(() -> ends(topic, broker, deadline)));
        }
        CompletableFuture.allOf(ends.values().toArray(CompletableFuture<?>[]::new)).join();
        ends.forEach((broker, positions) -> read(new Reader(topic, broker), positions.join()));
        return null;
    }

    /** Those that have the topic. Name servers may hear later of one that was made. */
    private List<BrokerRoute> brokers(String cluster, String topic, Deadline deadline) {
        boolean created = false;
        for (int repeats = 0;; repeats++) {
            Deadline look = repeats == 0 ? Deadline.sooner(Deadline.in(LOOK), deadline) : deadline;
            boolean missing;
            try {
                return client.route(topic, look).getBrokersList();
            } catch (ArianeException failure) {
                missing = failure.reason().equals("ROUTE_NOT_FOUND");
                boolean may = missing || failure.isRetriable();
                if (!may || repeats > 0 && !deadline.pause(repeats, failure.retryAfter())) {
                    throw failure;
                }
            }
            if (missing && !created) {
                create(cluster, topic, deadline);
                created = true;
            }
        }
    }

    private void create(String cluster, String topic, Deadline deadline) {
        var wanted = CreateTopicRequest.newBuilder().setTopic(
                Topic.newBuilder().setTopic(topic).setReadQueueCount(1).setWriteQueueCount(1)).build();
        for (BrokerIdentity broker : client.nameServers.primaries(cluster, deadline)) {
            Peer peer = Peer.broker(broker.getAddress(), broker.getBrokerName());
            try {
                client.oneTry(TopicServiceGrpc::newBlockingStub, peer, deadline).createTopic(wanted);
            } catch (RuntimeException error) {
                ArianeException failure = ArianeException.of(error, peer.address());
                if (!failure.reason().equals("TOPIC_EXISTS")) {
                    throw failure;
                }
            }
        }
    }

    /** Where the queues of a broker end; nothing of one that is away: what it has when it comes back may be replies. */
    private Map<Integer, Position> ends(String topic, BrokerRoute broker, Deadline deadline) {
        Map<Integer, Position> ends = new HashMap<>();
        if (!broker.containsAddresses(0)) {
            return ends;
        }
        String address = broker.getAddressesOrThrow(0);
        try {
            client.oneTry(PullServiceGrpc::newBlockingStub, Peer.broker(address, broker.getBrokerName()), deadline)
                    .listQueueBounds(ListQueueBoundsRequest.newBuilder().setTopic(topic).build()).getQueuesList()
                    .forEach(each -> ends.put(each.getQueueId(),
                            new Position(each.getMaxQueueOffset(), each.getLogEpoch())));
        } catch (RuntimeException error) {
            ArianeException failure = ArianeException.of(error, address);
            if (!failure.isPassing()) {
                throw failure;
            }
        }
        return ends;
    }

    /** Reads what a broker has of a topic until the client is closed, on one thread. */
    private void read(Reader reader, Map<Integer, Position> positions) {
        if (!readers.add(reader)) {
            return;
        }
        client.aside(() -> {
            int failures = 0;
            while (!closed) {
                try {
                    // Without a hold, whether it is still away is known sooner.
                    pull(reader, positions, failures == 0 ? HOLD : Duration.ZERO);
                    failures = 0;
                } catch (RuntimeException error) {
                    ArianeException failure = ArianeException.of(error, "");
                    LOG.log(Level.DEBUG, "no replies are read from {0}: {1}", reader.brokerName, failure.getMessage());
                    if (!waiting.isEmpty()) { // Nobody else is in a hurry to hear of it.
                        client.nameServers.forget(reader.topic);
                    }
                    Deadline.in(Duration.ofDays(1)).pause(failures++, failure.retryAfter());
                }
            }
            return null;
        });
    }

    private void pull(Reader reader, Map<Integer, Position> positions, Duration hold) {
        Duration tryTimeout = client.settings().tryTimeout;
        BrokerRoute broker = null;
        for (BrokerRoute each : client.route(reader.topic, Deadline.in(tryTimeout)).getBrokersList()) {
            if (each.getBrokerName().equals(reader.brokerName)) {
                broker = each;
            } else { // It may have taken up the topic since: then all it has is new.
                read(new Reader(reader.topic, each.getBrokerName()), new HashMap<>());
            }
        }
        if (broker == null || !broker.containsAddresses(0)) {
            throw ArianeException.retriable(Status.Code.UNAVAILABLE, "ROUTE_NOT_FOUND",
                    "no primary of broker " + reader.brokerName + " is known for " + reader.topic);
        }
        var mine = FilterExpression.newBuilder().setKind(FilterKind.FILTER_KIND_TAG).setText(client.id());
        var request = PullMessagesRequest.newBuilder().setConsumerGroup(GROUP).setClientId(client.id())
                .addSubscriptions(Subscription.newBuilder().setTopic(reader.topic).setFilter(mine))
                .setHoldDuration(Times.of(hold));
        for (int queue = 0; queue < broker.getReadQueueCount(); queue++) {
            Position from = positions.getOrDefault(queue, new Position(0, 0));
            request.addPositions(PullPosition.newBuilder().setTopic(reader.topic).setQueueId(queue)
                    .setQueueOffset(from.offset).setLogEpoch(from.logEpoch));
        }
        client.stub(PullServiceGrpc::newBlockingStub, Peer.broker(broker.getAddressesOrThrow(0), reader.brokerName))
                .withDeadlineAfter(hold.plus(tryTimeout).toNanos(), TimeUnit.NANOSECONDS).pullMessages(request.build())
                .getQueuesList().forEach(each -> takeIn(each, positions, reader.brokerName));
    }

    private void takeIn(QueueMessages queue, Map<Integer, Position> positions, String brokerName) {
        long next = queue.getNextQueueOffset();
        if (queue.hasError()) {
            ArianeException error = ArianeException.of(queue.getError(), brokerName);
            Position asked = positions.getOrDefault(queue.getQueueId(), new Position(0, 0));
            next = switch (error.reason()) {
                case "QUEUE_CUT" -> Long.parseLong(error.metadata().get("end"));
                case "QUEUE_OFFSET_OUT_OF_RANGE" -> asked.offset < queue.getMinQueueOffset()
                        ? queue.getMinQueueOffset() : queue.getMaxQueueOffset();
                default -> throw error;
            };
        }
        positions.put(queue.getQueueId(), new Position(next, queue.getLogEpoch()));
        for (var message : queue.getMessagesList()) {
            var reply = waiting.get(message.getReplyAddress().getCorrelationId());
            if (reply != null) {
                reply.complete(message);
            }
        }
    }
}
