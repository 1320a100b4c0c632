package mq.ariane.client;

import com.google.protobuf.ByteString;
import io.grpc.Context;
import io.grpc.Status;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import mq.ariane.broker.v1.LostRun;
import mq.ariane.broker.v1.ReceiveOrder;
import mq.ariane.broker.v1.ReceiveRecordsRequest;
import mq.ariane.broker.v1.ReceiveServiceGrpc;
import mq.ariane.broker.v1.ReceivedRecords;
import mq.ariane.broker.v1.RecordSettlement;
import mq.ariane.broker.v1.SettleRecordsRequest;
import mq.ariane.broker.v1.SettledRecords;
import mq.ariane.common.v1.Subscription;
import mq.ariane.namesrv.v1.BrokerRoute;

/** Receives messages and settles them. Any number may share a group. Close it at the end. */
public final class Consumer implements AutoCloseable {
    // How long a broker holds a call; one that went silent is noticed only after it.
    private static final Duration HOLD_MAX = Duration.ofSeconds(5);

    record Answer(String address, List<Delivery> deliveries, long atNanos, ArianeException error) {}

    /** Tells all who wait, one after the other, that the consumer is closed. */
    private static final Answer CLOSED = new Answer("", List.of(), 0, null);

    private static final System.Logger LOG = System.getLogger(Consumer.class.getName());

    private final Client client;
    private final ConsumerSettings settings;
    private final ReceiveOrder order;
    /** Answers that nobody has taken yet. */
    final BlockingQueue<Answer> arrived = new LinkedBlockingQueue<>();
    private final Set<String> pending = ConcurrentHashMap.newKeySet();
    /** How many wait for messages. */
    final AtomicInteger receiving = new AtomicInteger();
    private final AtomicLong lost = new AtomicLong();
    private final Context.CancellableContext life = Context.ROOT.withCancellation();

    /** A consumer of a client. */
    public Consumer(Client client, ConsumerSettings settings) {
        this.client = client;
        this.settings = settings;
        order = ReceiveOrder.newBuilder().setConsumerGroup(settings.group).setClientId(client.id())
                .setMessageCountMax(settings.maxMessages)
                .setByPriority(settings.byPriority)
                .setInvisibleDuration(Times.of(settings.invisible)).build();
    }

    /**
     * Ends what is being asked, and gives back what came and nobody took: others see that at once. What is in hand comes
     * to them once it is visible again. It returns also when brokers are away.
     */
    @Override
    public void close() {
        life.cancel(null);
        Deadline deadline = Deadline.in(client.settings().tryTimeout);
        try {
            while (!pending.isEmpty()) {
                Answer answer = arrived.poll(deadline.left().toNanos(), TimeUnit.NANOSECONDS);
                if (answer == null || answer == CLOSED) { // Closed before.
                    return;
                }
                pending.remove(answer.address());
                giveBack(answer.deliveries(), deadline);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } finally {
            arrived.add(CLOSED);
        }
    }

    boolean isClosed() {
        return life.isCancelled();
    }

    /**
     * Hands messages to a listener, at most so many at a time, on threads of its own, until the consumer is closed or
     * this thread interrupted. Messages stay invisible to others for as long as they wait here or are worked on. It
     * returns when those that were begun are over, and gives back the others. What passes is waited for.
     *
     * @throws ArianeException a broker or name server refuses
     */
    public void listen(int concurrency, Listener listener) throws InterruptedException {
        Listener traced = Traced.listener(client, settings.group, listener);
        new Listening(client, this, settings.group, settings.invisible, concurrency, traced).run();
    }

    void giveBack(List<Delivery> deliveries) {
        giveBack(deliveries, Deadline.in(client.settings().tryTimeout));
    }

    /** Shows messages to others. What a broker does not hear of comes again by itself. */
    private void giveBack(List<Delivery> deliveries, Deadline deadline) {
        try {
            settle(deliveries, invisible(Duration.ZERO), deadline);
        } catch (ArianeException away) {
            LOG.log(Level.DEBUG, "messages are not given back before their time", away);
        }
    }

    /**
     * Waits at most so long for messages; returns those of the broker that has some first, and none when nothing came.
     * Every broker of the topics is asked. Those that have not answered yet go on being asked, and what they find
     * comes with the next call: nothing is lost when the thread is interrupted.
     *
     * @throws ArianeException a broker or name server refuses, or is away if the exception is retriable
     * @throws IllegalStateException the consumer is closed
     */
    public List<Delivery> receive(Duration wait) throws InterruptedException {
        receiving.incrementAndGet();
        try {
            return receiveInTime(wait);
        } finally {
            receiving.decrementAndGet();
        }
    }

    private List<Delivery> receiveInTime(Duration wait) throws InterruptedException {
        Deadline deadline = Deadline.in(wait);
        Duration tryTimeout = client.settings().tryTimeout;
        Deadline asking = Deadline.in(wait.compareTo(tryTimeout) < 0 ? tryTimeout : wait);
        boolean failed = false;
        for (int repeats = 0;; repeats++) {
            if (isClosed()) {
                throw new IllegalStateException("the consumer is closed");
            }
            try {
                // Without a hold, whether a broker is still away is known sooner.
                askAll(failed ? Duration.ZERO : wait, asking);
            } catch (ArianeException failure) {
                throw orInterrupted(failure);
            }
            Answer answer = arrived.poll(deadline.left().toNanos(), TimeUnit.NANOSECONDS);
            if (answer == null) {
                return List.of();
            }
            if (answer == CLOSED) {
                arrived.add(CLOSED);
                continue;
            }
            pending.remove(answer.address());
            failed = answer.error() != null;
            if (answer.error() == null) {
                // Nobody may have called until others see them again.
                boolean held = System.nanoTime() - answer.atNanos() < settings.invisible.toNanos();
                if (held && !answer.deliveries().isEmpty()) {
                    askForOthers(wait, asking);
                    return answer.deliveries();
                }
                repeats = 0; // Nothing came; there may be time for another hold.
                continue;
            }
            boolean passes = answer.error().isRetriable() || answer.error().isRouting();
            settings.topics().forEach(client.nameServers::forget);
            if (!passes || !deadline.pause(repeats, answer.error().retryAfter())) {
                throw orInterrupted(answer.error());
            }
        }
    }

    /** The same on a thread of the client, which its end interrupts; a future that is cancelled lets it go on. */
    public CompletableFuture<List<Delivery>> receiveAsync(Duration wait) {
        return client.aside(() -> {
            try {
                return receive(wait);
            } catch (InterruptedException interrupted) {
                throw ArianeException.interrupted();
            }
        });
    }

    private static ArianeException orInterrupted(ArianeException failure) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return failure;
    }

    /**
     * Says that messages are done. Where the time of some was over, so that they come again or have, an exception says
     * RECEIPT_HANDLE_EXPIRED, and the others are done; those of further queues are suppressed in the first.
     */
    public void ack(List<Delivery> deliveries) {
        settle(deliveries, RecordSettlement.getDefaultInstance(), client.deadline());
    }

    /** The same on a thread of the client. */
    public CompletableFuture<Void> ackAsync(List<Delivery> deliveries) {
        return client.aside(() -> {
            ack(deliveries);
            return null;
        });
    }

    /** Gives back messages that failed: they come again, or become dead letters at last. */
    public void nack(List<Delivery> deliveries, Nack how) {
        var nack = mq.ariane.broker.v1.Nack.newBuilder().setDeadLetter(how.deadLetter()).setCause(how.cause());
        if (how.delay() != null) {
            nack.setDelay(Times.of(how.delay()));
        }
        settle(deliveries, RecordSettlement.newBuilder().setNack(nack).build(), client.deadline());
    }

    /** Lets others not see a message for so long from now on; returns it with that time, as far as this clock tells. */
    public Delivery changeInvisible(Delivery delivery, Duration duration) {
        return changeInvisible(delivery, duration, client.deadline());
    }

    private Delivery changeInvisible(Delivery delivery, Duration duration, Deadline deadline) {
        Instant until = Instant.now().plus(duration);
        settle(List.of(delivery), invisible(duration), deadline);
        return new Delivery(delivery.message(), delivery.brokerName(), delivery.queueId(), delivery.offset(),
                delivery.attempt(), until, delivery.receipt(), delivery.replyAddress());
    }

    private static RecordSettlement invisible(Duration duration) {
        return RecordSettlement.newBuilder().setInvisibleDuration(Times.of(duration)).build();
    }

    /** Asks aside for others who wait: whoever works on messages asks for nothing meanwhile. */
    private void askForOthers(Duration wait, Deadline deadline) {
        if (receiving.get() > 1) {
            try {
                client.aside(() -> {
                    askAll(wait, deadline);
                    return null;
                }).exceptionally(failure -> {
                    LOG.log(Level.DEBUG, "others ask when their time is over", failure);
                    return null;
                });
            } catch (ArianeException closed) {
                LOG.log(Level.DEBUG, "others learn that the client is closed", closed);
            }
        }
    }

    /** Asks each broker of the topics that is not being asked already. */
    private void askAll(Duration wait, Deadline deadline) {
        Duration hold = wait.compareTo(HOLD_MAX) < 0 ? wait : HOLD_MAX;
        // Of a topic that it does not have, a broker would refuse all.
        Map<Peer, ReceiveOrder.Builder> orders = new LinkedHashMap<>();
        for (ConsumerSettings.Wanted each : settings.wanted) {
            Subscription.Builder subscription = Subscription.newBuilder().setTopic(each.topic());
            if (each.filter() != null) {
                subscription.setFilter(each.filter());
            }
            for (BrokerRoute broker : client.route(each.topic(), deadline).getBrokersList()) {
                if (broker.containsAddresses(0)) {
                    orders.computeIfAbsent(Peer.broker(broker.getAddressesOrThrow(0), broker.getBrokerName()),
                            peer -> order.toBuilder().setHoldDuration(Times.of(hold))).addSubscriptions(subscription);
                }
            }
        }
        orders.forEach((peer, of) -> {
            if (pending.add(peer.address())) {
                client.aside(() -> arrived.add(ask(peer, of.build(), hold)));
            }
        });
    }

    /**
     * Asks one broker. A call that holds is never given up early: messages that were on their way would be invisible
     * for nothing.
     */
    private Answer ask(Peer peer, ReceiveOrder of, Duration hold) {
        String address = peer.address();
        List<Delivery> deliveries = new ArrayList<>();
        ArianeException damage = null;
        Bodies.Room room = new Bodies.Room(Bodies.ANSWER_BYTES_MAX);
        Context before = life.attach();
        try {
            ReceiveRecordsRequest request = ReceiveRecordsRequest.newBuilder().setOrder(of).build();
            long nanos = hold.plus(client.settings().tryTimeout).toNanos();
            for (ReceivedRecords queue : client.stub(ReceiveServiceGrpc::newBlockingStub, peer)
                    .withDeadlineAfter(nanos, TimeUnit.NANOSECONDS).receiveRecords(request).getQueuesList()) {
                hear(peer.name(), queue);
                try {
                    Records.read(peer.name(), queue, room, deliveries::add);
                } catch (RuntimeException | LinkageError error) { // A library of a format may not be for this machine.
                    LOG.log(Level.ERROR, "a queue of the answer of broker " + peer.name() + " cannot be read to its"
                            + " end: the rest of its messages come again", error);
                    damage = ArianeException.of(error, address);
                }
            }
            // What could be read is in our hands.
            return new Answer(address, deliveries, System.nanoTime(), deliveries.isEmpty() ? damage : null);
        } catch (RuntimeException | LinkageError error) {
            return new Answer(address, deliveries, System.nanoTime(), ArianeException.of(error, address));
        } finally {
            life.detach(before);
        }
    }

    /**
     * How many messages were passed over because their records are damaged in a broker, as far as this consumer was
     * told: a broker tells one consumer of the group. Each is logged as an error, too.
     */
    public long lostMessageCount() {
        return lost.get();
    }

    private void hear(String brokerName, ReceivedRecords queue) {
        for (LostRun run : queue.getLostList()) {
            lost.addAndGet(run.getMessageCount());
            long count = run.getMessageCount();
            LOG.log(Level.ERROR, "{0}@{1}#{2}: {3} from queue offset {4} on {5} lost, damaged in the broker, and passed"
                    + " over", queue.getTopic(), brokerName, Integer.toString(queue.getQueueId()),
                    ArianeException.counted(count, "message"), Long.toString(run.getFirstQueueOffset()),
                    count == 1 ? "is" : "are");
        }
    }

    /**
     * Calls each broker once, all at a time, for the messages that are its own: their outcome is that of the settlement.
     * To settle again is harmless.
     */
    private void settle(List<Delivery> deliveries, RecordSettlement outcome, Deadline deadline) {
        Map<String, Map<ByteString, List<Long>>> places = new LinkedHashMap<>();
        for (Delivery delivery : deliveries) {
            places.computeIfAbsent(delivery.brokerName(), broker -> new LinkedHashMap<>())
                    .computeIfAbsent(delivery.receipt(), receipt -> new ArrayList<>()).add(delivery.offset());
        }
        Map<String, CompletableFuture<List<SettledRecords>>> answers = new LinkedHashMap<>();
        places.forEach((broker, offsets) -> {
            var request = SettleRecordsRequest.newBuilder().setConsumerGroup(settings.group);
            offsets.forEach((receipt, of) -> request.addSettlements(
                    outcome.toBuilder().setReceipt(receipt).setRanges(Records.ranges(of))));
            answers.put(broker, client.aside(() -> client.onPrimary(broker, settings.topics(), deadline,
                    peer -> client.oneTry(ReceiveServiceGrpc::newBlockingStub, peer, deadline)
                            .settleRecords(request.build()).getResultsList())));
        });
        List<ArianeException> failures = new ArrayList<>();
        answers.forEach((broker, answer) -> {
            try {
                List<SettledRecords> results = answer.get();
                int count = places.get(broker).size();
                if (results.size() != count) {
                    String text = ArianeException.counted(results.size(), "result") + " came for "
                            + ArianeException.counted(count, "settlement");
                    failures.add(ArianeException.of(
                            Status.INTERNAL.withDescription(text).asRuntimeException(), broker));
                }
                results.stream().filter(SettledRecords::hasError)
                        .forEach(result -> failures.add(ArianeException.of(result.getError(), broker)));
            } catch (ExecutionException failed) {
                failures.add(ArianeException.of(failed.getCause(), broker));
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                failures.add(ArianeException.interrupted().withOutcome(true));
            }
        });
        if (!failures.isEmpty()) {
            ArianeException first = failures.remove(0);
            failures.forEach(first::addSuppressed);
            throw first;
        }
    }
}
