package mq.ariane.client;

import java.time.Instant;
import mq.ariane.broker.v1.ReceivedMessage;
import mq.ariane.common.v1.ReplyAddress;

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
 * @param replyAddress of a request: who waits for a reply; null for others
 */
public record Delivery(Message message, String brokerName, int queueId, long offset, int attempt,
        Instant invisibleUntil, String handle, ReplyAddress replyAddress) {
    static Delivery of(ReceivedMessage received) {
        var message = received.getMessage();
        var position = message.getPosition();
        return new Delivery(Message.of(message), position.getBrokerName(), position.getQueueId(),
                position.getQueueOffset(), position.getAttempts() + 1, Times.of(received.getInvisibleUntil()),
                received.getReceiptHandle(), message.hasReplyAddress() ? message.getReplyAddress() : null);
    }
}
