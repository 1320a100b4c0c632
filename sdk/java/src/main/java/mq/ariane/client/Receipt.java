package mq.ariane.client;

import mq.ariane.common.v1.AcknowledgedLevel;

/**
 * Where a message was stored, and how safely.
 *
 * @param id the message's
 * @param topic the message's
 * @param brokerName where it is
 * @param brokerAddress where that was reached, "host:port"
 * @param queueId its queue there
 * @param offset its place in the queue
 * @param level how safe it is
 * @param recallHandle takes a message with a delivery time back; empty for others
 * @param duplicate whether an earlier try of this send had stored it
 */
public record Receipt(String id, String topic, String brokerName, String brokerAddress, int queueId, long offset,
        AcknowledgedLevel level, String recallHandle, boolean duplicate) {}
