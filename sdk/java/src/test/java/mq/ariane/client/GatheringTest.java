package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Context;
import io.grpc.Status;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class GatheringTest {
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private FakeProcess broker;
    private FakeProcess nameServer;
    private Client client;
    private Producer producer;

    @BeforeEach
    void start() throws IOException {
        broker = new FakeProcess("broker-a");
        nameServer = new FakeProcess("", broker);
        client = new Client(List.of(nameServer.address));
        producer = new Producer(client);
    }

    @AfterEach
    void close() {
        threads.shutdownNow();
        client.close();
        nameServer.close();
        broker.close();
    }

    private static Message message(String body) {
        return Message.of(FakeProcess.TOPIC, body.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void whatIsSentWhileACallIsInFlightGoesTogetherAndEachIsRefusedForItself() throws Exception {
        CountDownLatch stored = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        broker.acknowledge = () -> {
            stored.countDown();
            release.await();
            return null;
        };
        Future<Receipt> first = threads.submit(() -> producer.send(message("first")));
        stored.await();
        List<Future<Receipt>> later = new ArrayList<>();
        for (int count = 0; count < 50; count++) {
            String body = count == 7 ? "bad" : "later";
            later.add(threads.submit(() -> producer.send(message(body))));
        }
        while (producer.gathered(FakeProcess.TOPIC, "broker-a") < 50) {
            Thread.onSpinWait();
        }
        ArianeException hasty = assertThrows(ArianeException.class,
                () -> producer.send(message("never"), Duration.ofMillis(100)));
        assertFalse(hasty.isOutcomeUnknown(), "it had not begun");
        release.countDown();
        first.get();
        for (int count = 0; count < 50; count++) {
            if (count == 7) {
                Throwable refused = assertThrows(ExecutionException.class, later.get(count)::get).getCause();
                assertEquals(Status.Code.INVALID_ARGUMENT, ((ArianeException) refused).code());
            } else {
                later.get(count).get();
            }
        }
        // The shared call was refused for one of them: each went alone then.
        assertEquals(50, broker.sent.size());
        assertEquals(50, broker.sent.stream().mapToInt(each -> each.getMessagesCount()).sum());
    }

    @Test
    void whoHearsOfASendMaySendToo() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        broker.acknowledge = () -> {
            release.await();
            return null;
        };
        CompletableFuture<Receipt> both = producer.sendAsync(message("one"))
                .thenApply(receipt -> producer.send(message("other")));
        CompletableFuture<Receipt> third = producer.sendAsync(message("third"));
        release.countDown();
        both.get();
        third.get();
        assertEquals(3, broker.sent.stream().mapToInt(each -> each.getMessagesCount()).sum());
    }

    @Test
    void whoHearsOfASendSendsInOrder() throws Exception {
        CountDownLatch release = new CountDownLatch(1);
        broker.acknowledge = () -> {
            release.await();
            return null;
        };
        CompletableFuture<Receipt> all = producer.sendAsync(message("one")).thenCompose(receipt -> {
            CompletableFuture<Receipt> before = producer.sendAsync(message("before"));
            producer.send(message("after"));
            return before;
        });
        release.countDown();
        all.get();
        assertEquals(List.of("one", "before", "after"), broker.sent.stream()
                .flatMap(each -> each.getMessagesList().stream()).map(each -> each.getBody().toStringUtf8()).toList());
    }

    @Test
    void whatOthersSendGoesOnWhenTheCallOfOneEnds() throws Exception {
        CountDownLatch stored = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        broker.acknowledge = () -> {
            stored.countDown();
            release.await();
            return null;
        };
        Context.CancellableContext call = Context.current().withCancellation();
        CompletableFuture<Receipt> one = call.call(() -> producer.sendAsync(message("one")));
        stored.await();
        CompletableFuture<Receipt> other = producer.sendAsync(message("other"));
        call.cancel(null);
        release.countDown();
        other.get();
        one.get();
        assertEquals(2, broker.sent.stream().mapToInt(each -> each.getMessagesCount()).sum());
    }

    @Test
    void oneThatSharesACallEndsInItsOwnTime() throws Exception {
        CountDownLatch[] stored = {new CountDownLatch(1), new CountDownLatch(1)};
        CountDownLatch[] release = {new CountDownLatch(1), new CountDownLatch(1)};
        broker.acknowledge = () -> {
            int call = broker.sent.size() - 1;
            stored[call].countDown();
            release[call].await();
            return null;
        };
        Future<Receipt> first = threads.submit(() -> producer.send(message("first")));
        stored[0].await();
        Future<Receipt> patient = threads.submit(() -> producer.send(message("patient")));
        Future<Receipt> hasty = threads.submit(() -> producer.send(message("hasty"), Duration.ofSeconds(2)));
        while (producer.gathered(FakeProcess.TOPIC, "broker-a") < 2) {
            Thread.onSpinWait();
        }
        release[0].countDown();
        stored[1].await();
        Throwable late = assertThrows(ExecutionException.class, hasty::get).getCause();
        assertTrue(((ArianeException) late).isOutcomeUnknown());
        release[1].countDown();
        first.get();
        patient.get();
        assertEquals(List.of(1, 2), broker.sent.stream().map(each -> each.getMessagesCount()).toList());
    }
}
