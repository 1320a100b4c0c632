package mq.ariane.client;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Times of the contract and of Java. */
final class Times {
    private Times() {}

    static Duration of(com.google.protobuf.Duration duration) {
        return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
    }

    static com.google.protobuf.Duration of(Duration duration) {
        return com.google.protobuf.Duration.newBuilder().setSeconds(duration.getSeconds()).setNanos(duration.getNano())
                .build();
    }

    static Instant of(Timestamp time) {
        return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
    }

    static Timestamp of(Instant time) {
        return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
    }
}
