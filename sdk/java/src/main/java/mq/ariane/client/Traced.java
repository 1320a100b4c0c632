package mq.ariane.client;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;

/** Sends and listeners with the tracing of their client, where it has one. */
final class Traced {
    private Traced() {}

    /** Sends a batch. */
    static List<Receipt> batch(Client client, List<Message> messages, Function<List<Message>, List<Receipt>> send) {
        return sent(client, messages, true, "", send);
    }

    /** Sends one message. */
    static Receipt one(Client client, Message message, String correlationId, Function<Message, Receipt> send) {
        if (client.settings().tracing == null) {
            return send.apply(message);
        }
        return sent(client, List.of(message), false, correlationId, marked -> List.of(send.apply(marked.get(0)))).get(0);
    }

    private static List<Receipt> sent(Client client, List<Message> messages, boolean batch, String correlationId,
            Function<List<Message>, List<Receipt>> send) {
        Tracing tracing = client.settings().tracing;
        if (tracing == null) {
            return send.apply(messages);
        }
        Tracing.Sending sending = tracing.sends(client.id(), messages, batch, correlationId);
        List<Receipt> receipts;
        try {
            receipts = send.apply(sending.messages());
        } catch (RuntimeException | Error failure) {
            sending.failed(failure);
            throw failure;
        }
        sending.stored(receipts);
        return receipts;
    }

    /** Sends one message without a thread that waits. */
    static CompletableFuture<Receipt> async(Client client, Message message, String correlationId,
            Function<Message, CompletableFuture<Receipt>> send) {
        Tracing tracing = client.settings().tracing;
        if (tracing == null) {
            return send.apply(message);
        }
        Tracing.Sending sending = tracing.sends(client.id(), List.of(message), false, correlationId);
        CompletableFuture<Receipt> sent;
        try {
            sent = send.apply(sending.messages().get(0));
        } catch (RuntimeException | Error failure) {
            sending.failed(failure);
            throw failure;
        }
        return sent.whenComplete((receipt, failure) -> {
            if (failure == null) {
                sending.stored(List.of(receipt));
            } else {
                sending.failed(failure instanceof CompletionException ? failure.getCause() : failure);
            }
        });
    }

    /** The listener of a group, which tells of each call. */
    static Listener listener(Client client, String group, Listener listener) {
        Tracing tracing = client.settings().tracing;
        if (tracing == null) {
            return listener;
        }
        return delivery -> {
            Tracing.Handling handling = tracing.handles(client.id(), group, delivery);
            try {
                listener.handle(delivery);
            } catch (Throwable failure) {
                handling.ended(failure);
                throw failure;
            }
            handling.ended(null);
        };
    }
}
