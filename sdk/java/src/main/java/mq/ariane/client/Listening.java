package mq.ariane.client;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;

/** Hands the messages of a consumer to a listener, and keeps them invisible to others meanwhile. */
final class Listening {
    private static final Duration WAIT = Duration.ofSeconds(5);
    private static final int CAUSE_LENGTH = 1024;
    private static final System.Logger LOG = System.getLogger(Listening.class.getName());

    private final Client client;
    private final Consumer consumer;
    private final Duration invisible;
    private final Listener listener;
    private final Semaphore room;
    private final Standstill had;
    private final ExecutorService threads = Executors.newCachedThreadPool(daemons("ariane-listener"));
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor(daemons("ariane-leases"));

    Listening(Client client, Consumer consumer, String group, Duration invisible, int concurrency, Listener listener) {
        if (concurrency < 1) {
            throw new IllegalArgumentException("concurrency is " + concurrency + ": 1 or more are expected");
        }
        this.client = client;
        this.consumer = consumer;
        this.invisible = invisible;
        this.listener = listener;
        room = new Semaphore(concurrency);
        had = new Standstill(group);
        clock.scheduleWithFixedDelay(() -> had.look(System.nanoTime()).ifPresent(text -> LOG.log(Level.WARNING, text)),
                Standstill.LOOK.toMillis(), Standstill.LOOK.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static ThreadFactory daemons(String name) {
        return task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }

    /** One message in hand, by what settles it now. */
    private final class Held {
        private Delivery delivery;
        private final ScheduledFuture<?> renewal;

        Held(Delivery delivery) {
            this.delivery = delivery;
            long half = Math.max(1, invisible.toMillis() / 2);
            // By a thread of the client: those of listeners take nothing new when the listening ends.
            renewal = clock.scheduleWithFixedDelay(() -> client.aside(this::renew), half, half, TimeUnit.MILLISECONDS);
        }

        private synchronized Delivery renew() {
            try {
                if (!renewal.isCancelled()) {
                    delivery = consumer.changeInvisible(delivery, invisible);
                }
            } catch (RuntimeException failure) {
                LOG.log(Level.DEBUG, "a message is not kept", failure);
            }
            return delivery;
        }

        /** What settles it; it is renewed no more. */
        synchronized Delivery end() {
            renewal.cancel(false);
            return delivery;
        }
    }

    /** Runs until the consumer is closed or the thread interrupted; then those that were begun are over. */
    void run() throws InterruptedException {
        try {
            while (true) {
                List<Held> some = receive();
                int begun = 0;
                try {
                    for (; begun < some.size(); begun++) {
                        room.acquire(); // No more are received than wait for room.
                        if (consumer.isClosed()) {
                            break;
                        }
                        Held held = some.get(begun);
                        threads.execute(() -> handle(held));
                    }
                } finally {
                    consumer.giveBack(some.subList(begun, some.size()).stream().map(Held::end).toList());
                }
            }
        } catch (IllegalStateException closed) {
            return;
        } finally {
            threads.shutdown();
            boolean interrupted = Thread.interrupted();
            while (!isOver()) {
                interrupted = true;
            }
            clock.shutdownNow();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private boolean isOver() {
        try {
            return threads.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
        } catch (InterruptedException again) {
            return false;
        }
    }

    private List<Held> receive() throws InterruptedException {
        try {
            return consumer.receive(WAIT).stream().map(Held::new).toList();
        } catch (ArianeException failure) {
            if (!failure.isPassing()) {
                throw failure;
            }
            return List.of(); // What passes is waited for.
        }
    }

    private void handle(Held held) {
        try {
            Throwable failure = null;
            Runnable end = had.begin(held.delivery, System.nanoTime());
            try {
                listener.handle(held.delivery);
            } catch (Throwable error) { // Whatever it is: a message that nobody settles would be kept for ever.
                failure = error;
            } finally {
                end.run();
                room.release();
            }
            settle(held.end(), failure);
        } catch (RuntimeException failure) {
            LOG.log(Level.WARNING, "a message is not settled, and comes again: {0}", failure.getMessage());
        }
    }

    private void settle(Delivery delivery, Throwable failure) {
        if (failure == null) {
            consumer.ack(List.of(delivery));
        } else {
            consumer.nack(List.of(delivery), new Nack(null, false, cause(failure)));
        }
    }

    /** The beginning of the text of what an application threw. */
    static String cause(Throwable failure) {
        String text;
        try {
            text = String.valueOf(failure);
        } catch (RuntimeException error) {
            text = failure.getClass().getName();
        }
        return text.substring(0, Math.min(text.length(), CAUSE_LENGTH));
    }
}
