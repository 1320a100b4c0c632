package mq.ariane.client;

import com.google.protobuf.ByteString;
import java.time.Instant;
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
 * @param receipt settles it, by its offset
 * @param replyAddress of a request: who waits for a reply; null for others
 */
public record Delivery(Message message, String brokerName, int queueId, long offset, int attempt,
        Instant invisibleUntil, ByteString receipt, ReplyAddress replyAddress) {}
