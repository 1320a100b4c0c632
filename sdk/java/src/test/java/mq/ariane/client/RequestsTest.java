package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import io.grpc.Context;
import io.grpc.Status;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import mq.ariane.broker.v1.PullPosition;
import mq.ariane.broker.v1.QueueBounds;
import mq.ariane.broker.v1.QueueMessages;
import mq.ariane.common.v1.ReplyAddress;
import mq.ariane.namesrv.v1.Route;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class RequestsTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final BlockingQueue<QueueMessages> replies = new LinkedBlockingQueue<>();
    private FakeProcess broker;
    private FakeProcess nameServer;
    private Client client;
    private Producer producer;

    @BeforeEach
    void start() throws IOException {
        broker = opened(new FakeProcess("broker-a"));
        broker.pull = () -> List.of(replies.take());
        nameServer = opened(new FakeProcess("", broker));
        client = opened(new Client(List.of(nameServer.address)));
        producer = new Producer(client);
    }

    @AfterEach
    void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }

    private <A extends AutoCloseable> A opened(A made) {
        open.push(made);
        return made;
    }

    private static Message message(String body) {
        return Message.of(FakeProcess.TOPIC, body.getBytes(StandardCharsets.UTF_8));
    }

    /** The request that is sent as one of so many. */
    private mq.ariane.common.v1.Message sent(int number) throws InterruptedException {
        while (broker.sent.stream().mapToInt(each -> each.getMessagesCount()).sum() < number) {
            Thread.sleep(1);
        }
        return broker.sent.stream().flatMap(each -> each.getMessagesList().stream()).toList().get(number - 1);
    }

    private static mq.ariane.common.v1.Message reply(ReplyAddress address, String body) {
        return mq.ariane.common.v1.Message.newBuilder().setReplyAddress(address).setBody(ByteString.copyFromUtf8(body))
                .build();
    }

    private static String text(Message message) {
        return new String(message.body(), StandardCharsets.UTF_8);
    }

    private void waitUntilNobodyWaits() throws InterruptedException {
        while (client.replies.waiting() > 0) {
            Thread.sleep(1);
        }
    }

    private static ArianeException failure(CompletableFuture<?> asking) {
        return (ArianeException) assertThrows(ExecutionException.class, asking::get).getCause();
    }

    @Test
    void eachGetsItsOwnReplyAndOthersAreDropped() throws Exception {
        CompletableFuture<Message> first = producer.requestAsync(message("first"), PATIENCE);
        ReplyAddress one = sent(1).getReplyAddress();
        CompletableFuture<Message> second = producer.requestAsync(message("second"), PATIENCE);
        ReplyAddress other = sent(2).getReplyAddress();
        assertEquals(client.id(), one.getClientId());
        ReplyAddress nobodys = one.toBuilder().setCorrelationId("of-nobody").build();
        replies.add(QueueMessages.newBuilder().addMessages(reply(nobodys, "lost")).addMessages(reply(other, "to second"))
                .addMessages(reply(one, "to first")).addMessages(reply(one, "to first, again")).build());
        assertEquals("to first", text(first.get()));
        assertEquals("to second", text(second.get()));
        waitUntilNobodyWaits();
    }

    @Test
    void anInterruptEndsTheWait() throws Exception {
        Thread waiting = Thread.currentThread();
        CompletableFuture.runAsync(() -> {
            try {
                sent(1);
            } catch (InterruptedException never) {
                throw new IllegalStateException(never);
            }
            waiting.interrupt();
        });
        ArianeException error = assertThrows(ArianeException.class, () -> producer.request(message("x"), PATIENCE));
        assertTrue(Thread.interrupted(), "whoever called learns of it");
        assertEquals(Status.Code.CANCELLED, error.code());
        assertTrue(error.isOutcomeUnknown());
        waitUntilNobodyWaits();
    }

    @Test
    void repliesAreReadOnWhenTheFirstCallThatAskedEnds() throws Exception {
        Context.CancellableContext call = Context.current().withCancellation();
        CompletableFuture<Message> first = call.call(() -> producer.requestAsync(message("first"), PATIENCE));
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "x")).build());
        first.get();
        call.cancel(null);
        CompletableFuture<Message> second = producer.requestAsync(message("second"), PATIENCE);
        var request = sent(2);
        int before = broker.pulled.size();
        while (broker.pulled.size() == before) { // What was asked before may be gone with what it was answered.
            replies.add(QueueMessages.newBuilder().addMessages(reply(request.getReplyAddress(), "y")).build());
            Thread.sleep(10);
        }
        assertEquals("y", text(second.get()));
    }

    @Test
    void aRequestThatIsCancelledIsForgotten() throws Exception {
        CompletableFuture<Message> asking = producer.requestAsync(message("x"), PATIENCE);
        sent(1);
        asking.cancel(false);
        waitUntilNobodyWaits();
    }

    @Test
    void whoWaitsLearnsThatTheClientWasClosed() throws Exception {
        CompletableFuture<Message> asking = producer.requestAsync(message("x"), PATIENCE);
        sent(1);
        while (producer.gathered(FakeProcess.TOPIC, "broker-a") > 0 || broker.pulled.isEmpty()) {
            Thread.sleep(1);
        }
        client.close();
        ArianeException error = failure(asking);
        assertEquals("CLIENT_NOT_RUNNING", error.reason());
        ArianeException later = assertThrows(ArianeException.class, () -> producer.request(message("y"), PATIENCE));
        assertEquals("CLIENT_NOT_RUNNING", later.reason());
        assertFalse(later.isOutcomeUnknown());
        waitUntilNobodyWaits();
    }

    @Test
    void noReplyInTimeIsAnErrorOfItsOwn() throws Exception {
        ArianeException error = assertThrows(ArianeException.class,
                () -> producer.request(message("x"), Duration.ofSeconds(3)));
        assertEquals("REQUEST_TIMEOUT", error.reason());
        assertTrue(error.isOutcomeUnknown() && error.isRetriable());
        assertEquals(1, broker.sent.size());
        waitUntilNobodyWaits();
    }

    @Test
    void nothingIsSentBeforeAReplyWouldBeHeard() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        broker.bounds = () -> {
            release.await();
            return List.of();
        };
        ArianeException error = assertThrows(ArianeException.class,
                () -> producer.request(message("x"), Duration.ofMillis(500)));
        assertEquals("REQUEST_TIMEOUT", error.reason());
        assertFalse(error.isOutcomeUnknown());
        release.countDown();
        CompletableFuture<Message> next = producer.requestAsync(message("next"), PATIENCE);
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "x")).build());
        next.get();
        assertEquals(1, broker.sent.size());
        waitUntilNobodyWaits();
    }

    @Test
    void whatIsGivenUpBeforeItIsSentIsNotSent() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        broker.bounds = () -> {
            release.await();
            return List.of();
        };
        CompletableFuture<Message> cancelled = producer.requestAsync(message("x"), PATIENCE);
        cancelled.cancel(false);
        Thread.currentThread().interrupt();
        ArianeException error = assertThrows(ArianeException.class, () -> producer.request(message("x"), PATIENCE));
        assertTrue(Thread.interrupted());
        assertFalse(error.isOutcomeUnknown());
        CompletableFuture<Message> third = producer.requestAsync(message("third"), PATIENCE);
        release.countDown();
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "x")).build());
        third.get();
        assertEquals(1, broker.sent.size());
        waitUntilNobodyWaits();
    }

    @Test
    void whatNobodyWouldHearAReplyToIsSurelyNotSent() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        broker.bounds = () -> {
            release.await();
            throw Status.UNKNOWN.asRuntimeException();
        };
        List<CompletableFuture<Message>> both = List.of(producer.requestAsync(message("x"), PATIENCE),
                producer.requestAsync(message("y"), PATIENCE));
        release.countDown();
        List<ArianeException> errors = both.stream().map(RequestsTest::failure).toList();
        for (ArianeException error : errors) {
            assertEquals(Status.Code.UNKNOWN, error.code());
            assertFalse(error.isOutcomeUnknown());
        }
        assertNotSame(errors.get(0), errors.get(1));
        assertEquals(0, broker.sent.size());
    }

    @Test
    void aBrokerWithoutAPrimaryKeepsNobodyFromAsking() throws Exception {
        FakeProcess orphan = opened(new FakeProcess("broker-b"));
        orphan.hasPrimary = false;
        nameServer.brokers.add(orphan);
        requestIsAnswered();
    }

    private void requestIsAnswered() throws Exception {
        CompletableFuture<Message> asking = producer.requestAsync(message("x"), PATIENCE);
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "x")).build());
        assertEquals("x", text(asking.get()));
    }

    @Test
    void theRouteOfATopicThatWasJustMadeIsWaitedFor() throws Exception {
        client.route(FakeProcess.TOPIC);
        AtomicInteger unknown = new AtomicInteger(3);
        nameServer.route = () -> {
            if (unknown.getAndDecrement() > 0) {
                throw ReasonsTest.said("ROUTE_NOT_FOUND", Map.of());
            }
            return null;
        };
        requestIsAnswered();
    }

    @Test
    void theTopicOfRepliesIsMadeWhereItsBrokersAreAway() throws Exception {
        client.route(FakeProcess.TOPIC);
        nameServer.route = () -> {
            if (!nameServer.counts.containsKey("brokers")) { // It is made at all of them.
                throw ReasonsTest.said("ROUTE_NOT_FOUND", Map.of("away_brokers", "broker-b"));
            }
            return null;
        };
        requestIsAnswered();
    }

    @Test
    void aRouteThatManyWaitForDoesNotEndWithTheCallOfTheFirst() throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        nameServer.route = () -> {
            asked.countDown();
            release.await();
            return null;
        };
        Context.CancellableContext call = Context.current().withCancellation();
        CompletableFuture<Route> first = CompletableFuture.supplyAsync(() -> client.route(FakeProcess.TOPIC),
                call.fixedContextExecutor(task -> new Thread(task).start()));
        asked.await();
        call.cancel(null);
        release.countDown();
        first.get();
        assertEquals(1, nameServer.counts.get("route"));
    }

    @Test
    void whatIsNoRequestIsRefusedAndForgotten() {
        assertThrows(IllegalArgumentException.class, () -> producer.request(message("x").withTag("\ud800"), PATIENCE));
        assertThrows(IllegalArgumentException.class,
                () -> producer.request(message("x").deliveredAt(Instant.now()), PATIENCE));
        assertEquals(0, client.replies.waiting());
        Delivery plain = new Delivery(message("x"), "broker-a", 0, 0, 1, Instant.EPOCH, ByteString.EMPTY, null);
        ArianeException error = assertThrows(ArianeException.class, () -> producer.reply(plain, new byte[0]));
        assertEquals("NO_REQUEST", error.reason());
        assertFalse(error.isOutcomeUnknown());
    }

    @Test
    void whateverIsDoneWithAReplyNoOtherWaits() throws Exception {
        CountDownLatch came = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        producer.requestAsync(message("slow"), PATIENCE).thenAccept(reply -> {
            came.countDown();
            try {
                release.await();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "x")).build());
        came.await();
        CompletableFuture<Message> quick = producer.requestAsync(message("quick"), PATIENCE);
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(2).getReplyAddress(), "x")).build());
        quick.get();
        release.countDown();
    }

    @Test
    void aBrokerThatWasAwayIsReadOnFromWhereItIsRight() throws Exception {
        broker.bounds = () -> List.of(QueueBounds.newBuilder().setMaxQueueOffset(70).setLogEpoch(1).build());
        BlockingQueue<QueueMessages> say = new LinkedBlockingQueue<>(List.of(
                QueueMessages.newBuilder().setNextQueueOffset(80).setLogEpoch(1).build(),
                // Its log lost what lay before.
                refusal("QUEUE_CUT").setLogEpoch(2).build(),
                // It keeps nothing so old any more.
                refusal("QUEUE_OFFSET_OUT_OF_RANGE").setMinQueueOffset(90).setMaxQueueOffset(95).setLogEpoch(2).build(),
                refusal("QUEUE_OFFSET_OUT_OF_RANGE").setMaxQueueOffset(5).setLogEpoch(3).build()));
        broker.pull = () -> {
            if (broker.pulled.size() == 2) {
                throw new IOException("away");
            }
            return List.of(say.isEmpty() ? replies.take() : say.take());
        };
        CompletableFuture<Message> asking = producer.requestAsync(message("x"), PATIENCE);
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "at last")).build());
        assertEquals("at last", text(asking.get()));
        assertEquals(List.of("70 of 1", "80 of 1", "80 of 1", "75 of 2", "90 of 2", "5 of 3"),
                broker.pulled.stream().limit(6).map(RequestsTest::place).toList());
    }

    private static String place(PullPosition position) {
        return position.getQueueOffset() + " of " + position.getLogEpoch();
    }

    private static QueueMessages.Builder refusal(String reason) {
        var info = ErrorInfo.newBuilder().setDomain("ariane.mq").setReason(reason).putMetadata("end", "75").build();
        return QueueMessages.newBuilder().setError(com.google.rpc.Status.newBuilder()
                .setCode(Status.Code.OUT_OF_RANGE.value()).addDetails(Any.pack(info)));
    }

    @Test
    void aBrokerThatIsAwayIsReadFromItsBeginning() throws Exception {
        broker.bounds = () -> {
            throw new IOException("away");
        };
        CompletableFuture<Message> asking = producer.requestAsync(message("x"), PATIENCE);
        replies.add(QueueMessages.newBuilder().addMessages(reply(sent(1).getReplyAddress(), "x")).build());
        asking.get();
        assertEquals("0 of 0", place(broker.pulled.get(0)));
    }

    @Test
    void aBrokerThatTakesUpTheTopicLaterIsReadToo() throws Exception {
        broker.pull = () -> {
            Thread.sleep(5);
            return List.of();
        };
        CompletableFuture<Message> asking = producer.requestAsync(message("x"), PATIENCE);
        var request = sent(1);
        FakeProcess later = opened(new FakeProcess("broker-b"));
        later.pull = () -> List.of(replies.take());
        nameServer.brokers.add(later);
        client.nameServers.forget("_REPLY_TOPIC"); // As when it is old.
        replies.add(QueueMessages.newBuilder().addMessages(reply(request.getReplyAddress(), "of the other")).build());
        assertEquals("of the other", text(asking.get()));
        assertEquals("0 of 0", place(later.pulled.get(0)));
    }
}
