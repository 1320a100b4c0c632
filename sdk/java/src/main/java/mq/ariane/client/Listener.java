package mq.ariane.client;

/** Handles one message: when it returns, the message is done; when it throws, it comes again. */
@FunctionalInterface
public interface Listener {
    /** Handles a message. */
    void handle(Delivery delivery) throws Exception;
}
