package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
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
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private FakeProcess broker;
    private FakeProcess nameServer;
    private Client client;
    private Consumer consumer;

    @BeforeEach
    void open() throws Exception {
        broker = new FakeProcess("broker-a");
        broker.receive = () -> List.of("first", "second");
        nameServer = new FakeProcess("", broker);
        client = new Client(List.of(nameServer.address), ClientSettings.builder().build());
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
}
