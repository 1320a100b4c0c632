package mq.ariane.client;

import java.time.Duration;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Knows what a listener has. Brokers keep it from others for as long as the consumer runs, so nobody else would know
 * of a listener that is stuck.
 */
final class Standstill {
    /** A message that a listener has had for so long is told of, and again after twice as long. */
    static final Duration LONG = Duration.ofMinutes(1);
    static final Duration LOOK = Duration.ofSeconds(10);

    private record Work(Delivery delivery, long sinceNs) {}

    private final String group;
    private final TreeMap<Integer, Work> had = new TreeMap<>();
    private int begun;
    private int told;
    private long tellAfterNs;

    Standstill(String group) {
        this.group = group;
    }

    /** Notes that the listener has a message; what is returned is to be run when it has it no longer. */
    synchronized Runnable begin(Delivery delivery, long nowNs) {
        int number = ++begun;
        had.put(number, new Work(delivery, nowNs));
        return () -> end(number);
    }

    private synchronized void end(int number) {
        had.remove(number);
    }

    /** What is to be told of the oldest message; nothing if it is not old. */
    synchronized Optional<String> look(long nowNs) {
        if (had.isEmpty()) {
            return Optional.empty();
        }
        int oldest = had.firstKey();
        if (oldest != told) {
            told = oldest;
            tellAfterNs = LONG.toNanos();
        }
        Work work = had.get(oldest);
        long oldNs = nowNs - work.sinceNs;
        if (oldNs < tellAfterNs) {
            return Optional.empty();
        }
        tellAfterNs *= 2;
        Delivery of = work.delivery;
        return Optional.of(of.message().topic() + "@" + of.brokerName() + "#" + of.queueId() + " of group " + group
                + ": no progress for " + Duration.ofNanos(oldNs).toSeconds() + " s; the listener has "
                + ArianeException.counted(had.size(), "message") + ", the oldest is " + of.message().id());
    }
}
