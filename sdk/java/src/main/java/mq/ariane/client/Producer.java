package mq.ariane.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import mq.ariane.broker.v1.ProducerSequence;
import mq.ariane.broker.v1.RecallMessageRequest;
import mq.ariane.broker.v1.SendMessagesRequest;
import mq.ariane.broker.v1.SendMessagesResponse;
import mq.ariane.broker.v1.SendServiceGrpc;
import mq.ariane.broker.v1.SentMessage;
import mq.ariane.common.v1.MessageQueue;
import mq.ariane.common.v1.ReplyAddress;

/**
 * Sends messages. Each is stored once although sends are repeated: batches carry numbers by which the broker knows
 * them again. It needs no closing of its own.
 */
public final class Producer {
    private static final int ROUTING_REPEATS = 5;

    /** What brokers take in a call however they are set. */
    private static final int REQUEST_BYTES_SURE = 4 << 20;

    record Queue(String topic, String brokerName, int queueId) {}

    record Place(Queue queue, String address) {}

    /** The stream of this producer to one queue: one batch at a time, numbered. */
    private static final class Lane {
        final ReentrantLock free = new ReentrantLock(true);
        int epoch;
        long next;

        /** Begins a new stream: a larger epoch, from 0. */
        void restart() {
            epoch++;
            next = 0;
        }
    }

    private final Client client;
    private final long id = ThreadLocalRandom.current().nextLong(1, 1L << 62);
    private final AtomicInteger turn = new AtomicInteger(ThreadLocalRandom.current().nextInt(1 << 16));
    private final Map<Queue, Lane> lanes = new ConcurrentHashMap<>();
    private final Map<Queue, Gathering> gatherings = new ConcurrentHashMap<>();

    /** A producer of a client. */
    public Producer(Client client) {
        this.client = client;
    }

    /**
     * Sends one message; returns when it is as safe as its broker promises. Messages of a topic, or of its groups, that
     * are sent while another is on its way to the same broker go on together.
     */
    public Receipt send(Message message) {
        return send(message, client.settings().callTimeout);
    }

    /** The same within a time limit. */
    public Receipt send(Message message, Duration timeout) {
        return send(message, null, Deadline.in(timeout));
    }

    private Receipt send(Message message, ReplyAddress address, Deadline deadline) {
        return Traced.one(client, message, correlationId(address), marked -> {
            var wire = wire(marked, address);
            return repeated(message.topic(), deadline, () -> {
                Place place = choose(message.topic(), message.group(), deadline);
                return gathering(place.queue(), message.group()).add(place, wire, deadline);
            });
        });
    }

    private static String correlationId(ReplyAddress address) {
        return address == null ? "" : address.getCorrelationId();
    }

    private mq.ariane.common.v1.Message wire(Message message, ReplyAddress address) {
        var wire = message.wire(false, client.settings().compression);
        return address == null ? wire : wire.toBuilder().setReplyAddress(address).build();
    }

    /**
     * The same, without a thread that waits; the future fails with an {@link ArianeException}. One that is cancelled lets
     * the send go on.
     */
    public CompletableFuture<Receipt> sendAsync(Message message) {
        Deadline deadline = client.deadline();
        return Traced.async(client, message, "", marked -> tryAsync(marked, wire(marked, null), deadline, 0));
    }

    /**
     * Sends a request and waits for the first reply to it, in all for so long; every group gets the request. The first
     * one of a client takes longer: it begins to listen, and makes the reply topic of the cluster where it is missing.
     *
     * @throws ArianeException REQUEST_TIMEOUT where no reply came in time, with an unknown outcome where the request is
     *     stored: a consumer may have acted on it
     */
    public Message request(Message message, Duration timeout) {
        AtomicBoolean begun = new AtomicBoolean();
        CompletableFuture<Message> asking = ask(message, Deadline.in(timeout), begun);
        try {
            return asking.get();
        } catch (ExecutionException failed) {
            throw ArianeException.of(failed.getCause(), "");
        } catch (InterruptedException interrupted) {
            boolean unsent = begun.compareAndSet(false, true);
            asking.cancel(false);
            Thread.currentThread().interrupt();
            throw ArianeException.interrupted().withOutcome(!unsent);
        }
    }

    /** The same, without a thread that waits; a future that is cancelled waits no more, but lets a send go on. */
    public CompletableFuture<Message> requestAsync(Message message, Duration timeout) {
        return ask(message, Deadline.in(timeout), new AtomicBoolean());
    }

    /** Asks, unless somebody has said before it is sent that the sending has begun. */
    private CompletableFuture<Message> ask(Message message, Deadline deadline, AtomicBoolean begun) {
        if (message.deliverAt() != null) {
            throw new IllegalArgumentException("a request cannot be delayed");
        }
        ReplyAddress address = ReplyAddress.newBuilder().setCorrelationId(Message.newId()).setClientId(client.id())
                .setTimeToLive(Times.of(deadline.left())).build();
        var asking = client.replies.expect(address.getCorrelationId(), reply -> Traced
                .async(client, message, address.getCorrelationId(), marked -> {
                    var wire = wire(marked, address);
                    return listening(marked.topic(), deadline).thenCompose(ready -> begun.compareAndSet(false, true)
                            ? tryAsync(marked, wire, deadline, 0)
                            : CompletableFuture.failedFuture(ArianeException.interrupted().withOutcome(false)));
                })
                .thenCompose(sent -> inTime(reply, deadline,
                        () -> ArianeException.requestTimeout("no reply in time", true))));
        asking.whenComplete((said, failure) -> begun.set(true));
        return asking;
    }

    /** Has replies from the cluster of a topic read. */
    private CompletableFuture<Void> listening(String topic, Deadline deadline) {
        var opening = client.withRoutes(topic, "", () -> client.route(topic, deadline).getBrokers(0).getClusterName())
                .thenCompose(client.replies::open);
        return inTime(opening, deadline, () -> ArianeException.requestTimeout(
                "not ready to get a reply in time; the request is not sent", false));
    }

    private static <A> CompletableFuture<A> inTime(CompletableFuture<A> future, Deadline deadline,
            Supplier<ArianeException> late) {
        return future.orTimeout(deadline.left().toNanos(), TimeUnit.NANOSECONDS)
                .exceptionallyCompose(error -> CompletableFuture.failedFuture(
                        error instanceof TimeoutException ? late.get() : ArianeException.of(
                                error instanceof CompletionException ? error.getCause() : error, "")));
    }

    /** Answers a request that a consumer has received. */
    public Receipt reply(Delivery request, byte[] body) {
        return reply(request, body, Map.of());
    }

    /**
     * The same with properties.
     *
     * @throws ArianeException NO_REQUEST where nobody waits for a reply to the message
     */
    public Receipt reply(Delivery request, byte[] body, Map<String, String> properties) {
        ReplyAddress address = request.replyAddress();
        if (address == null) {
            throw ArianeException.of(Status.Code.INVALID_ARGUMENT, "NO_REQUEST",
                    "message " + request.message().id() + " is no request: nobody waits for a reply").withOutcome(false);
        }
        return send(Message.of(address.getReplyTopic(), body).withProperties(properties), address, client.deadline());
    }

    private CompletableFuture<Receipt> tryAsync(Message message, mq.ariane.common.v1.Message wire, Deadline deadline,
            int repeats) {
        return client.withRoutes(message.topic(), message.group(), () -> choose(message.topic(), message.group(), deadline))
                .thenCompose(place -> gathering(place.queue(), message.group()).addAsync(place, wire, deadline))
                .exceptionallyCompose(error -> {
                    ArianeException failure = ArianeException.of(
                            error instanceof CompletionException ? error.getCause() : error, "");
                    long waitMs = mayRepeat(failure, repeats) ? deadline.pauseMs(repeats, failure.retryAfter()) : -1;
                    if (waitMs < 0) {
                        return CompletableFuture.failedFuture(failure);
                    }
                    client.nameServers.forget(message.topic());
                    return CompletableFuture
                            .runAsync(() -> {}, CompletableFuture.delayedExecutor(waitMs, TimeUnit.MILLISECONDS))
                            .thenCompose(waited -> tryAsync(message, wire, deadline, repeats + 1));
                });
    }

    /** What may be stored goes nowhere else, and what this queue refuses another may take. */
    private static boolean mayRepeat(ArianeException failure, int repeats) {
        boolean counted = failure.isRouting() && repeats >= ROUTING_REPEATS;
        return !failure.isOutcomeUnknown() && !counted && failure.isPassing();
    }

    /** Sends messages of one topic, and of one group or none, to one queue: in order, and all of them or none. */
    public List<Receipt> sendBatch(List<Message> messages) {
        return sendBatch(messages, client.settings().callTimeout);
    }

    /** The same within a time limit. */
    public List<Receipt> sendBatch(List<Message> messages, Duration timeout) {
        Deadline deadline = Deadline.in(timeout);
        if (messages.isEmpty()) {
            throw new IllegalArgumentException("a batch needs a message");
        }
        String topic = messages.get(0).topic();
        String group = messages.get(0).group();
        for (Message each : messages) {
            if (!each.topic().equals(topic) || !each.group().equals(group)) {
                throw new IllegalArgumentException("messages of a batch share their topic and their group");
            }
        }
        return Traced.batch(client, messages, marked -> {
            var wire = marked.stream().map(each -> wire(each, null)).toList();
            return repeated(topic, deadline, () -> inTurn(choose(topic, group, deadline), wire, deadline));
        });
    }

    /** Has a send repeated that is surely not stored and may pass. */
    private <A> A repeated(String topic, Deadline deadline, Supplier<A> send) {
        for (int repeats = 0;; repeats++) {
            try {
                return send.get();
            } catch (ArianeException failure) {
                if (!mayRepeat(failure, repeats) || !deadline.pause(repeats, failure.retryAfter())) {
                    throw failure;
                }
                client.nameServers.forget(topic);
            }
        }
    }

    /** Where single messages to a place gather: by broker, and by queue where they have groups. */
    private Gathering gathering(Queue queue, String group) {
        Queue place = group.isEmpty() ? new Queue(queue.topic(), queue.brokerName(), -1) : queue;
        return gatherings.computeIfAbsent(place, each -> new Gathering(client, this::inTurn));
    }

    /** How many messages of a topic without a group wait for a broker. */
    int gathered(String topic, String brokerName) {
        return gathering(new Queue(topic, brokerName, -1), "").waiting();
    }

    /** Takes back a message with a delivery time; returns its id. Again is harmless. */
    public String recall(Receipt receipt) {
        Deadline deadline = client.deadline();
        RecallMessageRequest request = RecallMessageRequest.newBuilder().setTopic(receipt.topic())
                .setRecallHandle(receipt.recallHandle()).build();
        return client.onPrimary(receipt.brokerName(), List.of(receipt.topic()), deadline, peer -> client
                .oneTry(SendServiceGrpc::newBlockingStub, peer, deadline).recallMessage(request).getUniqueId());
    }

    /** Picks a queue for messages that are surely not stored yet. */
    Place choose(String topic, String group, Deadline deadline) {
        TopicRoute known = client.topicRoute(topic, deadline);
        if (known.denial() != null) {
            client.nameServers.forget(topic); // Whoever makes it anew is found at once.
            throw known.denial().copy();
        }
        if (!group.isEmpty()) {
            MessageQueue found = client.groupQueue(topic, group, deadline);
            Queue queue = new Queue(topic, found.getBrokerName(), found.getQueueId());
            return new Place(queue, client.brokerAddress(queue.brokerName(), List.of(topic), deadline));
        }
        if (known.writable().isEmpty()) {
            throw ArianeException.retriable(Status.Code.PERMISSION_DENIED, "TOPIC_NOT_WRITABLE",
                    "no broker takes messages of topic " + topic + " now (ariane topic show " + topic + ")");
        }
        return known.writable().get(Math.floorMod(turn.getAndIncrement(), known.writable().size()));
    }

    /** Sends on the lane of a queue when all before it is over. */
    private List<Receipt> inTurn(Place place, List<mq.ariane.common.v1.Message> messages, Deadline deadline) {
        Lane lane = lanes.computeIfAbsent(place.queue(), queue -> new Lane());
        try {
            if (!lane.free.tryLock(deadline.left().toNanos(), TimeUnit.NANOSECONDS)) {
                throw ArianeException.of(Status.Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED", "earlier sends take too long");
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw ArianeException.interrupted().withOutcome(false);
        }
        try {
            if (deadline.left().isZero()) {
                throw ArianeException.of(Status.Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED", "no time is left to send");
            }
            return sendTo(lane, place, messages, deadline);
        } finally {
            lane.free.unlock();
        }
    }

    /**
     * Sends to one queue, and again to the same one while it is not known what became of it. An error that leaves the
     * outcome known says that nothing is stored.
     */
    private List<Receipt> sendTo(Lane lane, Place place, List<mq.ariane.common.v1.Message> messages,
            Deadline deadline) {
        String address = place.address();
        Queue queue = place.queue();
        long since = 0; // When it may have been stored first, by nanoTime.
        boolean maybeStored = false;
        for (int repeats = 0;; repeats++) {
            long began = System.nanoTime();
            try {
                SendMessagesResponse answer = client
                        .oneTry(SendServiceGrpc::newBlockingStub, Peer.broker(address, queue.brokerName()), deadline)
                        .sendMessages(SendMessagesRequest.newBuilder().setTopic(queue.topic())
                                .setQueueId(queue.queueId()).addAllMessages(messages)
                                .setSequence(ProducerSequence.newBuilder().setProducerId(id)
                                        .setProducerEpoch(lane.epoch).setFirstSequence(lane.next))
                                .build());
                lane.next += messages.size();
                return receipts(answer, queue.topic(), address);
            } catch (RuntimeException error) {
                ArianeException failure = ArianeException.of(error, address);
                int size = messages.stream().mapToInt(mq.ariane.common.v1.Message::getSerializedSize).sum();
                if (failure.code() == Status.Code.RESOURCE_EXHAUSTED && failure.reason().isEmpty()
                        && size > REQUEST_BYTES_SURE) {
                    throw ArianeException.of(Status.Code.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE",
                            ArianeException.counted(messages.size(), "message") + " in one call: " + size
                            + " bytes are more than the broker takes; send fewer, or smaller ones");
                }
                if (failure.reason().equals("SEQUENCE_GAP") && (!maybeStored || isMissing(failure, since))) {
                    // The broker has no memory of what came before, and nothing of this is stored.
                    lane.restart();
                    maybeStored = false;
                    if (repeats < ROUTING_REPEATS) {
                        continue;
                    }
                }
                if (failure.isOutcomeUnknown() && !maybeStored) {
                    since = began;
                    maybeStored = true;
                }
                if (!maybeStored) {
                    throw failure;
                }
                failure.withOutcome(true);
                boolean may = failure.isPassing() || failure.isUnconfirmed();
                if (!may || !deadline.pause(repeats, failure.retryAfter())) {
                    lane.restart(); // The broker refuses from now on what may still be on its way.
                    throw failure;
                }
                client.nameServers.forget(queue.topic());
                try {
                    address = client.brokerAddress(queue.brokerName(), List.of(queue.topic()), deadline);
                } catch (ArianeException unknown) {
                    continue; // It is where it was: it may come back.
                }
            }
        }
    }

    /** Whether a gap shows that no try since then has stored anything. */
    private static boolean isMissing(ArianeException gap, long sinceNanos) {
        long knownMs = Long.parseLong(gap.metadata().getOrDefault("known_for_ms", "0"));
        // A second is for clocks that do not run alike.
        return (System.nanoTime() - sinceNanos) / 1_000_000 + 1000 < knownMs;
    }

    private static List<Receipt> receipts(SendMessagesResponse answer, String topic, String address) {
        List<Receipt> receipts = new ArrayList<>();
        for (SentMessage sent : answer.getMessagesList()) {
            var position = sent.getPosition();
            receipts.add(new Receipt(sent.getUniqueId(), topic, position.getBrokerName(), address,
                    position.getQueueId(), position.getQueueOffset(), answer.getAcknowledgedLevel(), sent.getRecallHandle(),
                    answer.getDuplicate()));
        }
        return receipts;
    }
}
