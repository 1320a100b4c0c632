package mq.ariane.client;

import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The single sends to one place: those that come while a call is in flight are the next call. A lone one waits for
 * nothing: its own thread makes the call, and any for others that gathered meanwhile are made by a thread of the client.
 */
final class Gathering {
    private static final int COUNT_MAX = 1024;

    /** Of bodies: less than what brokers take in a call however they are set. */
    private static final int BYTES_MAX = 2 << 20;

    /** Sends messages to a place; returns a receipt for each. */
    interface Call {
        List<Receipt> send(Producer.Place place, List<mq.ariane.common.v1.Message> messages, Deadline deadline);
    }

    /** A message that waits for the next call, or for its answer. */
    private static final class Single {
        final Producer.Place place;
        final mq.ariane.common.v1.Message message;
        final Deadline deadline;
        final CompletableFuture<Receipt> receipt = new CompletableFuture<>();

        Single(Producer.Place place, mq.ariane.common.v1.Message message, Deadline deadline) {
            this.place = place;
            this.message = message;
            this.deadline = deadline;
        }
    }

    private final Client client;
    private final Call call;
    private final Deque<Single> waiting = new ArrayDeque<>();
    private boolean running;
    /** Makes the calls for all; null while nobody does. */
    private Thread caller;

    Gathering(Client client, Call call) {
        this.client = client;
        this.call = call;
    }

    /** Sends a message, with others where there are some. */
    Receipt add(Producer.Place place, mq.ariane.common.v1.Message message, Deadline deadline) {
        Single own = new Single(place, message, deadline);
        boolean first;
        boolean within;
        synchronized (this) {
            first = !running;
            within = caller == Thread.currentThread();
            running = true;
            if (!first) {
                waiting.add(own);
            }
        }
        if (within) { // Who hears of a send sends: nobody else would make the call.
            while (!own.receipt.isDone()) {
                send(take());
            }
        } else if (first) {
            try {
                send(List.of(own));
            } finally {
                goOn();
            }
        }
        return outcome(own);
    }

    /** The same, on a thread of the client; the future fails with an {@link ArianeException}. */
    CompletableFuture<Receipt> addAsync(Producer.Place place, mq.ariane.common.v1.Message message, Deadline deadline) {
        Single own = new Single(place, message, deadline);
        boolean first;
        synchronized (this) {
            first = !running;
            running = true;
            waiting.add(own);
        }
        if (first) {
            goOn();
        }
        return own.receipt.orTimeout(deadline.left().toNanos(), TimeUnit.NANOSECONDS).exceptionally(error -> {
            if (error instanceof TimeoutException) {
                throw late(own, ArianeException.of(Status.Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED", "no answer in time"));
            }
            throw ArianeException.of(error, place.address());
        });
    }

    /** What a message that waits no more is told. */
    private synchronized ArianeException late(Single own, ArianeException failure) {
        return failure.withOutcome(!waiting.remove(own));
    }

    private Receipt outcome(Single own) {
        ArianeException failure;
        try {
            return own.receipt.get(own.deadline.left().toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException refused) {
            throw ArianeException.of(refused.getCause(), own.place.address());
        } catch (TimeoutException late) {
            failure = ArianeException.of(Status.Code.DEADLINE_EXCEEDED, "DEADLINE_PASSED", "no answer in time");
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            failure = ArianeException.interrupted();
        }
        throw late(own, failure);
    }

    /** How many messages wait for the next call. */
    synchronized int waiting() {
        return waiting.size();
    }

    /** Has the next call made, if messages wait. */
    private void goOn() {
        synchronized (this) {
            running = !waiting.isEmpty();
            if (!running) {
                return;
            }
        }
        try {
            client.shared(() -> {
                for (List<Single> batch = take(); !batch.isEmpty(); batch = take()) {
                    send(batch);
                }
                return null;
            });
        } catch (ArianeException closed) {
            for (List<Single> batch = take(); !batch.isEmpty(); batch = take()) {
                batch.forEach(each -> each.receipt.completeExceptionally(closed.copy()));
            }
        }
    }

    /** What waits and fits into a call; when nothing does, the next one begins anew. */
    private synchronized List<Single> take() {
        List<Single> batch = new ArrayList<>();
        int bytes = 0;
        while (!waiting.isEmpty() && batch.size() < COUNT_MAX) {
            bytes += waiting.peek().message.getBody().size();
            if (!batch.isEmpty() && bytes > BYTES_MAX) {
                break;
            }
            batch.add(waiting.poll());
        }
        running = !batch.isEmpty();
        caller = running ? Thread.currentThread() : null;
        return batch;
    }

    private void send(List<Single> batch) {
        Single last = batch.get(batch.size() - 1);
        // The call lasts as long as somebody waits for it; each ends its own wait before.
        Deadline deadline = batch.stream().map(each -> each.deadline).reduce(Deadline::later).orElseThrow();
        try {
            List<Receipt> receipts = call.send(last.place, batch.stream().map(each -> each.message).toList(), deadline);
            for (int place = 0; place < batch.size(); place++) {
                batch.get(place).receipt.complete(receipts.get(place));
            }
        } catch (RuntimeException error) {
            ArianeException failure = ArianeException.of(error, last.place.address());
            for (Single each : batch) {
                if (batch.size() == 1 || failure.isOutcomeUnknown() || failure.isPassing()) {
                    each.receipt.completeExceptionally(failure.copy()); // Whoever gets an error may add to it.
                } else { // One of them may be refused and not the others.
                    send(List.of(each));
                }
            }
        }
    }
}
