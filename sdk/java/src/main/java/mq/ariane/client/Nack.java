package mq.ariane.client;

import java.time.Duration;

/**
 * How messages that failed come back.
 *
 * @param delay how long to wait before; null: as the group's retry policy says
 * @param deadLetter whether they become dead letters at once
 * @param cause why they failed, for people
 */
public record Nack(Duration delay, boolean deadLetter, String cause) {
    /** As the group's retry policy says. */
    public static Nack because(String cause) {
        return new Nack(null, false, cause);
    }
}
