package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

@Timeout(120)
class ClientTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    @AfterEach
    void close() throws Exception {
        threads.shutdownNow();
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private FakeProcess start(String name, FakeProcess... brokers) throws IOException {
        return opened(new FakeProcess(name, brokers));
    }

    private Client client(Duration callTimeout, FakeProcess... nameServers) {
        List<String> addresses = Stream.of(nameServers).map(each -> each.address).toList();
        return opened(new Client(addresses, ClientSettings.builder().callTimeout(callTimeout).build()));
    }

    private Consumer consumer(Client client, Duration invisible) {
        return opened(new Consumer(client,
                ConsumerSettings.builder("waiters").topic(FakeProcess.TOPIC).invisible(invisible).build()));
    }

    private <A extends AutoCloseable> A opened(A made) {
        open.push(made);
        return made;
    }

    private static Message message(String body) {
        return Message.of(FakeProcess.TOPIC, body.getBytes(StandardCharsets.UTF_8));
    }

    private static List<String> bodies(List<Delivery> deliveries) {
        return deliveries.stream().map(each -> new String(each.message().body(), StandardCharsets.UTF_8)).toList();
    }

    @Test
    void anInterruptEndsAWaitAndNothingIsLost() throws Exception {
        FakeProcess broker = start("broker-a");
        BlockingQueue<List<String>> arrive = new ArrayBlockingQueue<>(1);
        CountDownLatch asked = new CountDownLatch(1);
        broker.receive = () -> {
            asked.countDown();
            return arrive.take();
        };
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        Thread waiting = Thread.currentThread();
        threads.submit(() -> {
            asked.await();
            waiting.interrupt();
            return null;
        });
        assertThrows(InterruptedException.class, () -> consumer.receive(PATIENCE));
        assertFalse(Thread.currentThread().isInterrupted());
        arrive.put(List.of("late"));
        assertEquals(List.of("late"), bodies(consumer.receive(Duration.ofSeconds(Long.MAX_VALUE))));
        assertEquals(List.of(), consumer.receive(Duration.ZERO));
    }

    @Test
    void aConnectionThatEndsBeforeItIsReadyIsAProcessThatIsAway() {
        var said = Status.UNKNOWN.withDescription("channel closed").withCause(new ClosedChannelException());
        ArianeException seen = ArianeException.of(said.asRuntimeException(), "broker-a");
        assertEquals(Status.Code.UNAVAILABLE, seen.code());
        assertTrue(seen.isRetriable() && seen.isOutcomeUnknown());
        assertEquals(Status.Code.UNKNOWN, ArianeException.of(Status.UNKNOWN.asRuntimeException(), "b").code());
    }

    @Test
    void anInterruptWhileNobodyAnswersIsOneToo() throws Exception {
        FakeProcess gone = start("");
        gone.close();
        Consumer consumer = consumer(client(PATIENCE, gone), PATIENCE);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> consumer.receive(PATIENCE));
        Thread.currentThread().interrupt();
        Producer producer = new Producer(client(PATIENCE, gone));
        assertThrows(ArianeException.class, () -> producer.send(message("x")));
        assertTrue(Thread.interrupted(), "whoever called learns of it");
    }

    @Test
    void manyReceiveAtATimeAndEachMessageComesOnce() throws Exception {
        FakeProcess broker = start("broker-a");
        broker.receive = () -> {
            int number = broker.count("receive");
            return number <= 200 ? List.of(String.valueOf(number)) : List.of();
        };
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        ConcurrentLinkedQueue<String> found = new ConcurrentLinkedQueue<>();
        List<Future<?>> receiving = new ArrayList<>();
        for (int count = 0; count < 8; count++) {
            receiving.add(threads.submit(() -> {
                while (found.size() < 200) {
                    found.addAll(bodies(consumer.receive(Duration.ofMillis(200))));
                }
                return null;
            }));
        }
        for (Future<?> each : receiving) {
            each.get();
        }
        assertEquals(200, found.size());
        assertEquals(200, new HashSet<>(found).size());
    }

    @Test
    void whatCameAndNobodyTookGoesBackWhenTheConsumerIsClosed() throws Exception {
        FakeProcess[] brokers = {start("broker-a"), start("broker-b")};
        for (FakeProcess broker : brokers) {
            broker.receive = () -> List.of(broker.name + "-1", broker.name + "-2");
        }
        Consumer consumer = consumer(client(PATIENCE, start("", brokers)), PATIENCE);
        HashSet<String> found = new HashSet<>(bodies(consumer.receive(PATIENCE)));
        while (consumer.arrived.isEmpty()) {
            Thread.onSpinWait();
        }
        consumer.close();
        for (FakeProcess broker : brokers) {
            found.addAll(broker.shown);
        }
        assertEquals(4, found.size(), found.toString());
    }

    @Test
    void whatOthersSeeAgainByNowIsNotGivenOut() throws Exception {
        FakeProcess broker = start("broker-a");
        broker.receive = () -> List.of(String.valueOf(broker.count("receive")));
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), Duration.ofNanos(1));
        while (broker.counts.getOrDefault("receive", 0) < 3) {
            assertEquals(List.of(), consumer.receive(Duration.ofMillis(100)));
        }
    }

    @Test
    void waitsEndInTheirTimeWhileNameServersAreAway() throws Exception {
        FakeProcess gone = start("");
        gone.close();
        Consumer consumer = consumer(client(Duration.ofHours(1), gone), PATIENCE);
        ArianeException error = assertThrows(ArianeException.class, () -> consumer.receive(Duration.ofMillis(100)));
        assertTrue(error.isRetriable());
        assertFalse(error.isOutcomeUnknown());
    }

    @Test
    void whatWasKnownHoldsWhileNameServersAreAway() throws Exception {
        FakeProcess broker = start("broker-a");
        FakeProcess[] nameServers = {start("", broker), start("", broker)};
        Client client = client(Duration.ofSeconds(5), nameServers);
        Producer producer = new Producer(client);
        producer.send(message("plain"));
        producer.send(message("grouped").inGroup("table-7"));
        for (FakeProcess each : nameServers) {
            each.close();
        }
        client.nameServers.forget(FakeProcess.TOPIC); // As when it is old.
        for (int count = 0; count < 20; count++) {
            producer.send(message("plain"));
            producer.send(message("grouped").inGroup("table-7"));
        }
        assertEquals(42, broker.sent.size());
    }

    @Test
    void thousandsOfSendsAtOnceAskForTheRouteOnce() throws Exception {
        FakeProcess nameServer = start("", start("broker-a"));
        Producer producer = new Producer(client(PATIENCE, nameServer));
        List<Future<Receipt>> sends = new ArrayList<>();
        for (int count = 0; count < 2000; count++) {
            sends.add(threads.submit(() -> producer.send(message("x"))));
        }
        for (Future<Receipt> each : sends) {
            each.get();
        }
        assertEquals(Map.of("route", 1), nameServer.counts);
    }

    @Test
    void aGroupIsAskedForOnce() throws Exception {
        FakeProcess nameServer = start("", start("broker-a"));
        Producer producer = new Producer(client(PATIENCE, nameServer));
        for (int count = 0; count < 10; count++) {
            producer.send(message("x").inGroup("table-7"));
        }
        producer.send(message("x").inGroup("table-8"));
        assertEquals(Map.of("group", 2, "route", 1), nameServer.counts);
    }

    @Test
    void aBrokerThatIsAwayKeepsNoOtherFromHearing() throws Exception {
        FakeProcess gone = start("broker-a");
        FakeProcess there = start("broker-b");
        gone.receive = () -> List.of("of broker-a");
        there.receive = () -> List.of("of broker-b");
        Consumer consumer = consumer(client(Duration.ofSeconds(1), start("", gone, there)), PATIENCE);
        Map<String, Delivery> held = new TreeMap<>();
        while (held.size() < 2) {
            consumer.receive(PATIENCE).forEach(each -> held.put(each.brokerName(), each));
        }
        gone.close();
        ArianeException error = assertThrows(ArianeException.class, () -> consumer.ack(List.copyOf(held.values())));
        assertTrue(error.getMessage().contains(gone.address), error.getMessage());
        assertEquals(List.of("of broker-b"), there.settled);
    }

    /** A topic was deleted at the next primary before its producers heard of that one: it has no route any more. */
    @Test
    void aTopicThatWasDeletedBehindAChangeOfItsPrimaryIsSentToTheNextOne() throws Exception {
        Map<String, Boolean> follows = Map.of("topic", true, "warming_up", true, "queue_order", false, "away_brokers", false);
        for (var why : follows.entrySet()) {
            for (boolean isGone : List.of(false, true)) {
                FakeProcess first = start("broker-a");
                FakeProcess next = start("broker-a");
                FakeProcess nameServer = start("", first);
                Producer producer = new Producer(client(PATIENCE, nameServer));
                List<Message> before = List.of(message("plain"), message("grouped").inGroup("table-7"));
                before.forEach(producer::send);
                nameServer.present = List.of(start("broker-b"), next);
                nameServer.route = () -> {
                    throw ReasonsTest.said("ROUTE_NOT_FOUND", Map.of(why.getKey(), "x"));
                };
                first.refusal = ReasonsTest.said("BROKER_NOT_PRIMARY", Map.of());
                if (isGone) {
                    first.close();
                }
                for (Message each : before) {
                    if (why.getValue()) {
                        producer.send(each);
                    } else {
                        assertThrows(ArianeException.class, () -> producer.send(each, Duration.ofSeconds(1)));
                    }
                }
                assertEquals(why.getValue() ? 2 : 0, next.sent.size(), why.getKey());
            }
        }
    }

    /** A topic was deleted while nobody could write it: no broker would ever say so. */
    @Test
    void aTopicThatWasDeletedWhileItHadNoPrimaryIsGone() throws Exception {
        Map<String, Boolean> reasons = Map.of("topic", true, "warming_up", false, "queue_order", false, "away_brokers", false);
        for (var why : reasons.entrySet()) {
            boolean isGone = why.getValue();
            FakeProcess broker = start("broker-a");
            FakeProcess nameServer = start("", broker);
            Client client = client(PATIENCE, nameServer);
            Producer producer = new Producer(client);
            Message plain = message("plain");
            Message grouped = message("grouped").inGroup("table-7");
            List.of(plain, grouped).forEach(producer::send);
            broker.hasPrimary = false;
            client.nameServers.forget(FakeProcess.TOPIC);
            assertEquals("TOPIC_NOT_WRITABLE true", refusal(producer, plain));
            nameServer.route = () -> {
                throw ReasonsTest.said("ROUTE_NOT_FOUND", Map.of(why.getKey(), "x"));
            };
            client.nameServers.forget(FakeProcess.TOPIC);
            assertEquals(isGone ? "ROUTE_NOT_FOUND false" : "TOPIC_NOT_WRITABLE true", refusal(producer, plain));
            assertEquals("ROUTE_NOT_FOUND " + !isGone, refusal(producer, grouped));
            broker.hasPrimary = true;
            nameServer.route = () -> null;
            if (isGone) {
                List.of(plain, grouped).forEach(producer::send);
            }
        }
    }

    /** The reason of a refused send, and whether it is retriable. */
    private static String refusal(Producer producer, Message message) {
        ArianeException failure = assertThrows(ArianeException.class, () -> producer.send(message, Duration.ofSeconds(1)));
        assertFalse(failure.isOutcomeUnknown(), failure.toString());
        return failure.reason() + " " + failure.isRetriable();
    }

    @Test
    void whoWaitsLearnsThatTheConsumerWasClosed() throws Exception {
        FakeProcess broker = start("broker-a");
        CountDownLatch asked = new CountDownLatch(1);
        broker.receive = () -> {
            asked.countDown();
            Thread.sleep(Long.MAX_VALUE);
            return List.of();
        };
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        Future<List<Delivery>> waiting = threads.submit(() -> consumer.receive(PATIENCE));
        asked.await();
        consumer.close();
        ExecutionException error = assertThrows(ExecutionException.class, waiting::get);
        assertEquals(IllegalStateException.class, error.getCause().getClass());
    }

    @Test
    void allWhoWaitLearnThatTheConsumerWasClosed() throws Exception {
        FakeProcess broker = start("broker-a");
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        List<Future<List<Delivery>>> waiting = Stream.generate(() -> threads.submit(() -> consumer.receive(Duration.ofHours(1))))
                .limit(4).toList();
        while (consumer.receiving.get() < 4) {
            Thread.sleep(1);
        }
        consumer.close();
        for (Future<List<Delivery>> each : waiting) {
            ExecutionException error = assertThrows(ExecutionException.class,
                    () -> each.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS));
            assertEquals(IllegalStateException.class, error.getCause().getClass());
        }
    }

    @Test
    void whoReceivesIsNotKeptWaitingByAnotherThatWorks() throws Exception {
        FakeProcess broker = start("broker-a");
        BlockingQueue<String> arriving = new ArrayBlockingQueue<>(2);
        broker.receive = () -> List.of(arriving.take());
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        BlockingQueue<List<Delivery>> came = new ArrayBlockingQueue<>(2);
        for (int number = 0; number < 2; number++) { // Each receives once only, and works on it then.
            threads.submit(() -> came.add(consumer.receive(Duration.ofHours(1))));
        }
        while (consumer.receiving.get() < 2) {
            Thread.sleep(1);
        }
        for (String body : List.of("first", "second")) {
            arriving.add(body);
            List<Delivery> found = came.poll(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
            assertEquals(body, found == null ? null : new String(found.get(0).message().body(), StandardCharsets.UTF_8));
        }
    }

    @Test
    void aListenerWhoseConsumerIsClosedGetsNothingMore() throws Exception {
        FakeProcess broker = start("broker-a");
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch goesOn = new CountDownLatch(1);
        broker.receive = () -> broker.count("receive") == 1 ? List.of("1", "2", "3") : List.of();
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        List<String> handled = new ArrayList<>();
        Future<?> listening = threads.submit(() -> {
            consumer.listen(1, delivery -> {
                handled.add(new String(delivery.message().body(), StandardCharsets.UTF_8));
                begun.countDown();
                goesOn.await();
            });
            return null;
        });
        begun.await();
        consumer.close();
        goesOn.countDown();
        listening.get();
        assertEquals(List.of("1"), handled);
        assertEquals(List.of("1"), broker.settled);
        assertEquals(List.of("2", "3"), broker.shown);
    }

    @Test
    void aSendWhoseTimeIsOverBeforeItsCallIsSurelyNotStored() throws Exception {
        FakeProcess broker = start("broker-a");
        Producer producer = new Producer(client(PATIENCE, start("", broker)));
        producer.send(message("x"));
        for (Executable late : List.<Executable>of(() -> producer.send(message("y"), Duration.ZERO),
                () -> producer.sendBatch(List.of(message("y")), Duration.ZERO))) {
            ArianeException failure = assertThrows(ArianeException.class, late);
            assertEquals("DEADLINE_PASSED false", failure.reason() + " " + failure.isOutcomeUnknown());
        }
        assertEquals(1, broker.sent.size());
    }

    @Test
    void aClosedClientSaysSo() throws Exception {
        FakeProcess broker = start("broker-a");
        Client client = client(PATIENCE, start("", broker));
        Producer producer = new Producer(client);
        CountDownLatch stored = new CountDownLatch(1);
        broker.acknowledge = () -> {
            stored.countDown();
            Thread.sleep(Long.MAX_VALUE);
            return null;
        };
        CompletableFuture<Receipt> sending = CompletableFuture.supplyAsync(() -> producer.send(message("x")), threads);
        stored.await();
        client.close();
        ArianeException error = (ArianeException) assertThrows(ExecutionException.class, sending::get).getCause();
        assertTrue(error.isOutcomeUnknown(), "the broker has it");
        ArianeException later = assertThrows(ArianeException.class, () -> producer.send(message("y")));
        assertEquals(Status.Code.FAILED_PRECONDITION, later.code());
        assertEquals("CLIENT_NOT_RUNNING", later.reason());
        assertFalse(later.isOutcomeUnknown());
    }

    @Test
    void whatTheWireWouldChangeInSilenceIsRefused() throws Exception {
        Client client = client(PATIENCE, start("", start("broker-a")));
        Producer producer = new Producer(client);
        assertThrows(IllegalArgumentException.class, () -> producer.send(message("x").withKeys(List.of("\ud800"))));
        TransactionProducer transactions = opened(
                new TransactionProducer(client, "tellers", List.of(), asked -> Outcome.UNKNOWN));
        assertThrows(IllegalArgumentException.class,
                () -> transactions.begin(message("x").deliveredAt(Instant.now())));
        transactions.close();
        assertThrows(IllegalStateException.class, () -> transactions.begin(message("x")), "nobody would be asked");
    }

    /** An error whose text cannot be had. */
    private static final class Silent extends RuntimeException {
        @Override
        public String getMessage() {
            throw new IllegalStateException();
        }
    }

    @Test
    void aMessageIsSettledWhateverItsListenerThrows() throws Exception {
        Map<String, Throwable> thrown = Map.of("exception", new IOException("fire"), "error", new AssertionError("water"),
                "silent", new Silent(), "long", new Exception("x".repeat(5000)));
        FakeProcess broker = start("broker-a");
        broker.receive = () -> {
            if (broker.count("receive") > 1) {
                Thread.sleep(Long.MAX_VALUE);
            }
            return List.copyOf(thrown.keySet());
        };
        Consumer consumer = consumer(client(PATIENCE, start("", broker)), PATIENCE);
        Future<?> listening = threads.submit(() -> {
            consumer.listen(2, delivery -> {
                Throwable each = thrown.get(new String(delivery.message().body(), StandardCharsets.UTF_8));
                if (each instanceof Error error) {
                    throw error;
                }
                throw (Exception) each;
            });
            return null;
        });
        while (broker.failed.size() < thrown.size()) {
            Thread.sleep(1);
        }
        consumer.close();
        listening.get();
        assertEquals(Map.of("exception", "java.io.IOException: fire", "error", "java.lang.AssertionError: water",
                "silent", Silent.class.getName(),
                "long", ("java.lang.Exception: " + "x".repeat(5000)).substring(0, 1024)), Map.copyOf(broker.failed));
    }
}
