package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import mq.ariane.common.v1.ErrorReason;
import org.junit.jupiter.api.Test;

class ReasonsTest {
    static StatusRuntimeException said(String reason, Map<String, String> metadata) {
        var info = ErrorInfo.newBuilder().setDomain("ariane.mq").setReason(reason).putAllMetadata(metadata).build();
        var status = com.google.rpc.Status.newBuilder().setCode(10).addDetails(Any.pack(info)).build();
        return StatusProto.toStatusRuntimeException(status);
    }

    private static ArianeException refused(String reason) {
        return ArianeException.of(said(reason, Map.of()), "broker-a");
    }

    /** Sends where the name server that is asked first has no route, for a reason, and the other has one. */
    private static void sendPast(String why) throws Exception {
        try (var broker = new FakeProcess("broker-a");
                var one = new FakeProcess("", broker);
                var other = new FakeProcess("", broker);
                var client = new Client(List.of(one.address, other.address), ClientSettings.builder().build())) {
            AtomicBoolean asked = new AtomicBoolean();
            one.route = other.route = () -> {
                if (!asked.getAndSet(true)) {
                    throw said("ROUTE_NOT_FOUND", Map.of(why, "x"));
                }
                return null;
            };
            new Producer(client).send(Message.of(FakeProcess.TOPIC, new byte[1]));
        }
    }

    @Test
    void aTopicThatMayComeBackIsWaitedFor() throws Exception {
        for (String why : List.of("warming_up", "queue_order", "away_brokers")) {
            sendPast(why);
        }
        assertEquals("ROUTE_NOT_FOUND", assertThrows(ArianeException.class, () -> sendPast("topic")).reason());
    }

    private static ArianeException ofNameServer(Status status) {
        return ArianeException.of(status.withDescription("refused").asRuntimeException(), "nobody:1")
                .ofNameServer("nobody:1");
    }

    @Test
    void whoCannotBeAskedForRoutesIsSaid() {
        ArianeException unreachable = ofNameServer(Status.UNAVAILABLE);
        assertEquals("no name server answered: nobody:1: refused [NAME_SERVERS_UNREACHABLE]", unreachable.getMessage());
        assertTrue(unreachable.isRetriable() && !unreachable.isOutcomeUnknown());
        ArianeException other = ofNameServer(Status.UNIMPLEMENTED);
        assertEquals("NOT_NAME_SERVER", other.reason());
        assertTrue(other.getMessage().startsWith("nobody:1 answers, and is no name server"), other.getMessage());
        assertFalse(other.isRetriable() || other.isOutcomeUnknown());
    }

    @Test
    void whatAReasonMeansIsReadFromTheContract() {
        Map.of( // Retriable, unknown, routing.
                "SERVICE_BUSY", List.of(true, false, false),
                "FLUSH_UNCONFIRMED", List.of(false, true, false),
                "BROKER_NOT_PRIMARY", List.of(true, false, true),
                "TOPIC_NOT_FOUND", List.of(false, false, true),
                "FIELD_INVALID", List.of(false, false, false),
                "MOON_IN_THE_WAY", List.of(false, true, false) // Of a later version.
        ).forEach((reason, meant) -> {
            ArianeException seen = refused(reason);
            assertEquals(meant, List.of(seen.isRetriable(), seen.isOutcomeUnknown(), seen.isRouting()), reason);
        });
        var all = Arrays.stream(ErrorReason.values()).filter(each -> each != ErrorReason.UNRECOGNIZED)
                .map(each -> refused(each.name().substring("ERROR_REASON_".length()))).toList();
        assertFalse(all.stream().anyMatch(each -> each.isRetriable() && each.isOutcomeUnknown()));
        long retriable = all.stream().filter(ArianeException::isRetriable).count();
        long unknown = all.stream().filter(ArianeException::isOutcomeUnknown).count();
        assertTrue(retriable > 0 && unknown > 0 && retriable + unknown < all.size() / 2);
    }
}
