package mq.ariane.client;

import com.google.protobuf.UnsafeByteOperations;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.Stream;
import mq.ariane.common.v1.Compression;
import mq.ariane.common.v1.MessageType;

/**
 * What a producer sends.
 *
 * @param topic where to
 * @param body the payload; not copied
 * @param tag one coarse label to filter by, or empty
 * @param keys find the message again
 * @param group keeps messages in order: those of one group go to one queue; or empty
 * @param properties the application's own
 * @param deliverAt when the message becomes visible; null: at once
 * @param priority consumers that go by priority get messages of a higher one first
 * @param id unique for ever
 * @param compression how the body is compressed: of a received one not at all, unless it is damaged
 */
public record Message(String topic, byte[] body, String tag, List<String> keys, String group,
        Map<String, String> properties, Instant deliverAt, int priority, String id, Compression compression) {
    /** Checks that nothing is missing. */
    public Message {
        Objects.requireNonNull(topic, "topic");
        Objects.requireNonNull(body, "body");
        Objects.requireNonNull(tag, "tag: there is none by default");
        Objects.requireNonNull(group, "group: there is none by default");
    }

    /** A message of a topic and a body; the methods below add the rest. */
    public static Message of(String topic, byte[] body) {
        return new Message(topic, body, "", List.of(), "", Map.of(), null, 0, newId(),
                Compression.COMPRESSION_UNSPECIFIED);
    }

    /** The same with a tag. */
    public Message withTag(String value) {
        return new Message(topic, body, value, keys, group, properties, deliverAt, priority, id, compression);
    }

    /** The same with keys. */
    public Message withKeys(List<String> value) {
        return new Message(topic, body, tag, List.copyOf(value), group, properties, deliverAt, priority, id, compression);
    }

    /** The same in a message group. */
    public Message inGroup(String value) {
        return new Message(topic, body, tag, keys, value, properties, deliverAt, priority, id, compression);
    }

    /** The same with properties. */
    public Message withProperties(Map<String, String> value) {
        return new Message(topic, body, tag, keys, group, Map.copyOf(value), deliverAt, priority, id, compression);
    }

    /** The same, visible from then on. */
    public Message deliveredAt(Instant value) {
        return new Message(topic, body, tag, keys, group, properties, value, priority, id, compression);
    }

    /** The same with a priority. */
    public Message withPriority(int value) {
        return new Message(topic, body, tag, keys, group, properties, deliverAt, value, id, compression);
    }

    /** The same with an id of the application's own. */
    public Message withId(String value) {
        return new Message(topic, body, tag, keys, group, properties, deliverAt, priority, value, compression);
    }

    /**
     * The message as the contract has it. All that the broker would fill in is filled in here, so that a repeat is
     * the same message to the byte.
     */
    mq.ariane.common.v1.Message wire(boolean half, Compression packing) {
        Stream.of(List.of(topic, tag, group, id), keys, properties.keySet(), properties.values())
                .flatMap(Collection::stream).forEach(Message::checkText);
        var message = mq.ariane.common.v1.Message.newBuilder().setTopic(topic).setTag(tag).addAllKeys(keys)
                .setMessageGroup(group).putAllProperties(properties).setUniqueId(id)
                .setCreateTime(Times.of(Instant.now()));
        if (compression == Compression.COMPRESSION_UNSPECIFIED) {
            Bodies.pack(body, packing, message);
        } else {
            message.setBody(UnsafeByteOperations.unsafeWrap(body)).setCompression(compression);
        }
        if (priority != 0) {
            message.setPriority(priority);
        }
        if (half) {
            return message.setMessageType(MessageType.MESSAGE_TYPE_TRANSACTION).build();
        }
        if (deliverAt != null) {
            message.setDeliveryTime(Times.of(deliverAt)).setMessageType(MessageType.MESSAGE_TYPE_DELAY);
        } else if (!group.isEmpty()) {
            message.setMessageType(MessageType.MESSAGE_TYPE_FIFO);
        }
        return message.build();
    }

    static Message of(mq.ariane.common.v1.Message wire) {
        return of(wire, new Bodies.Room(Bodies.ANSWER_BYTES_MAX));
    }

    /** One of several whose compressed bodies share a room. */
    static Message of(mq.ariane.common.v1.Message wire, Bodies.Room room) {
        Instant deliverAt = wire.hasDeliveryTime() ? Times.of(wire.getDeliveryTime()) : null;
        Compression compression = Compression.COMPRESSION_UNSPECIFIED;
        byte[] body;
        try {
            body = Bodies.original(wire.getBody(), wire.getCompression(), room);
        } catch (IOException damaged) {
            body = wire.getBody().toByteArray(); // It stays as stored, and says so.
            compression = wire.getCompression();
        }
        return new Message(wire.getTopic(), body, wire.getTag(), List.copyOf(wire.getKeysList()),
                wire.getMessageGroup(), Map.copyOf(wire.getPropertiesMap()), deliverAt, wire.getPriority(),
                wire.getUniqueId(),
                compression);
    }

    /** Of what is no Unicode the wire would make question marks. */
    private static void checkText(String text) {
        if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
            throw new IllegalArgumentException("a text is no Unicode, because a surrogate is alone: " + text);
        }
    }

    static String newId() {
        return UUID.randomUUID().toString().replace("-", "");
    }
}
