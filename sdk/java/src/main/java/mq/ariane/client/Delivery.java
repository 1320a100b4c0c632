package mq.ariane.client;

import java.time.Instant;
import mq.ariane.broker.v1.ReceivedMessage;

/**
 * A message in a consumer's hands.
 *
 * @param message what was sent
 * @param brokerName where it is
 * @param queueId its queue there
 * @param offset its place in the queue
 * @param attempt counts deliveries of the message, this one included: 1 for the first
 * @param invisibleUntil when others see it again, unless it is settled
 * @param handle settles it
 */
public record Delivery(Message message, String brokerName, int queueId, long offset, int attempt,
        Instant invisibleUntil, String handle) {
    static Delivery of(ReceivedMessage received) {
        var position = received.getMessage().getPosition();
        return new Delivery(Message.of(received.getMessage()), position.getBrokerName(), position.getQueueId(),
                position.getQueueOffset(), position.getDeliveryAttempt() + 1, Times.of(received.getInvisibleUntil()),
                received.getReceiptHandle());
    }
}
