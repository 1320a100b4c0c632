package mq.ariane.client;

import java.util.List;

/**
 * Is told what a client sends and what its listeners handle, to make spans of it; {@link ClientSettings.Builder#tracing}
 * takes it. {@link mq.ariane.client.opentelemetry.OpenTelemetryTracing} makes those of OpenTelemetry. A client without
 * one does nothing for traces.
 */
public interface Tracing {
    /**
     * A send begins, on the thread that called; the messages are one, or a batch of one topic.
     *
     * @param correlationId of a request or a reply; empty for others
     */
    Sending sends(String clientId, List<Message> messages, boolean batch, String correlationId);

    /** A listener begins with a message, on this thread. */
    Handling handles(String clientId, String group, Delivery delivery);

    /** One send. */
    interface Sending {
        /** The messages to send, which may carry more. */
        List<Message> messages();

        /** They are stored. */
        void stored(List<Receipt> receipts);

        /** They are not, or nobody knows. */
        void failed(Throwable failure);
    }

    /** A listener's work on one message. */
    interface Handling {
        /** It has ended, on the same thread; without a failure: well. */
        void ended(Throwable failure);
    }
}
