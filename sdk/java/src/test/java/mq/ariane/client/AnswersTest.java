package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import mq.ariane.broker.v1.ReceiveRecordsResponse;
import mq.ariane.broker.v1.SettleRecordsResponse;
import mq.ariane.broker.v1.SettledRecords;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a consumer makes of answers that are damaged, or not whole. */
@Timeout(120)
class AnswersTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private FakeProcess broker;
    private FakeProcess nameServer;
    private Client client;
    private Consumer consumer;

    @BeforeEach
    void open() throws Exception {
        broker = new FakeProcess("broker-a");
        broker.receive = () -> List.of("first", "second");
        nameServer = new FakeProcess("", broker);
        client = new Client(List.of(nameServer.address), ClientSettings.builder().tryTimeout(PATIENCE).build());
        consumer = new Consumer(client, ConsumerSettings.builder("waiters").topic(FakeProcess.TOPIC).build());
    }

    @AfterEach
    void close() {
        consumer.close();
        client.close();
        nameServer.close();
        broker.close();
    }

    /** The queue of an answer with the last byte of its second record broken. */
    private static ReceiveRecordsResponse broken(ReceiveRecordsResponse answer) {
        byte[] records = answer.getQueues(0).getRecords().toByteArray();
        records[records.length - 1] ^= -1;
        return answer.toBuilder().setQueues(0, answer.getQueues(0).toBuilder().setRecords(ByteString.copyFrom(records))).build();
    }

    @Test
    void aDamagedQueueTakesNoOtherWithIt() throws Exception {
        broker.spoil = answer -> answer.toBuilder().addQueues(broken(answer).getQueues(0)).addQueues(answer.getQueues(0)).build();
        assertEquals(List.of("first", "second", "first", "first", "second"), consumer.receive(PATIENCE).stream()
                .map(each -> new String(each.message().body(), StandardCharsets.UTF_8)).toList());
    }

    @Test
    void anAnswerOfWhichNothingCanBeReadIsAnError() {
        broker.receive = () -> List.of("only");
        broker.spoil = AnswersTest::broken;
        ArianeException failure = assertThrows(ArianeException.class, () -> consumer.receive(PATIENCE));
        assertEquals("RECORD_CORRUPTED", failure.reason());
    }

    @Test
    void moreOrFewerResultsThanSettlementsAreNoSuccess() throws Exception {
        List<Delivery> deliveries = consumer.receive(PATIENCE);
        consumer.ack(deliveries);
        for (int count : new int[] {0, 2}) {
            broker.results = answer -> SettleRecordsResponse.newBuilder()
                    .addAllResults(Collections.nCopies(count, SettledRecords.getDefaultInstance())).build();
            ArianeException failure = assertThrows(ArianeException.class, () -> consumer.ack(deliveries));
            assertTrue(failure.isOutcomeUnknown(), failure.getMessage());
        }
    }

    @Test
    void whatCameWaitsForNoNameServer() throws Exception {
        BlockingQueue<String> arriving = new ArrayBlockingQueue<>(1);
        CountDownLatch asked = new CountDownLatch(1);
        broker.receive = () -> {
            asked.countDown();
            return List.of(arriving.take());
        };
        List<CompletableFuture<List<Delivery>>> waiting = List.of(consumer.receiveAsync(PATIENCE), consumer.receiveAsync(PATIENCE));
        asked.await();
        while (consumer.receiving.get() < 2) {
            Thread.sleep(1);
        }
        CountDownLatch answered = new CountDownLatch(1);
        nameServer.route = () -> answered.await(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        client.nameServers.forget(FakeProcess.TOPIC);
        arriving.add("first");
        assertEquals(1, ((List<?>) CompletableFuture.anyOf(waiting.toArray(new CompletableFuture<?>[0])).get(20, TimeUnit.SECONDS)).size());
        assertEquals(1, answered.getCount());
        answered.countDown();
        arriving.add("second");
        for (CompletableFuture<List<Delivery>> each : waiting) {
            assertEquals(1, each.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).size());
        }
    }
}
