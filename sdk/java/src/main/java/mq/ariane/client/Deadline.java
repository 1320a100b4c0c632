package mq.ariane.client;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** When a call with all its repeats is to be over. */
record Deadline(long endNanos) {
    /** Longer ones may not fit into nanoseconds. */
    private static final Duration MOST = Duration.ofDays(36_500);

    static Deadline in(Duration time) {
        return new Deadline(System.nanoTime() + (time.compareTo(MOST) < 0 ? time : MOST).toNanos());
    }

    Duration left() {
        return Duration.ofNanos(Math.max(0, endNanos - System.nanoTime()));
    }

    static Deadline sooner(Deadline one, Deadline other) {
        return one.endNanos - other.endNanos < 0 ? one : other;
    }

    static Deadline later(Deadline one, Deadline other) {
        return one.endNanos - other.endNanos < 0 ? other : one;
    }

    /** How long to wait before a repeat, longer each time; -1 when the time is over before. */
    long pauseMs(int repeats, Duration asked) {
        long mostMs = Math.min(2000, 50L << Math.min(repeats, 6));
        long waitMs = Math.max(asked.toMillis(), ThreadLocalRandom.current().nextLong(mostMs / 2, mostMs));
        return left().toMillis() < waitMs ? -1 : waitMs;
    }

    /** Wait before a repeat; false when the time is over before. */
    boolean pause(int repeats, Duration asked) {
        long waitMs = pauseMs(repeats, asked);
        if (waitMs < 0) {
            return false;
        }
        try {
            Thread.sleep(waitMs);
            return true;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
