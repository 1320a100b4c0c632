package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.ByteString;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class StandstillTest {
    private final Standstill had = new Standstill("waiters");

    private static Delivery delivery(String id) {
        var sent = mq.ariane.common.v1.Message.newBuilder().setTopic("orders").setUniqueId(id).build();
        return new Delivery(Message.of(sent), "broker-a", 3, 0, 1, Instant.EPOCH, ByteString.EMPTY, null);
    }

    private Optional<String> after(int seconds) {
        return had.look(Duration.ofSeconds(seconds).toNanos());
    }

    private static Optional<String> told(int seconds, int count, String oldest) {
        return Optional.of("orders@broker-a#3 of group waiters: no progress for " + seconds + " s; the listener has "
                + count + " message" + (count == 1 ? "" : "s") + ", the oldest is " + oldest);
    }

    @Test
    void aMessageThatAListenerDoesNotFinishIsToldOfAndAgainAfterTwiceTheTime() {
        Runnable end = had.begin(delivery("first"), 0);
        had.begin(delivery("second"), Duration.ofSeconds(30).toNanos());
        assertEquals(Optional.empty(), after(59));
        assertEquals(told(61, 2, "first"), after(61));
        assertEquals(Optional.empty(), after(71));
        assertEquals(Optional.empty(), after(119));
        assertEquals(told(121, 2, "first"), after(121));
        end.run();
        assertEquals(told(92, 1, "second"), after(122));
        assertEquals(Optional.empty(), after(123));
    }
}
