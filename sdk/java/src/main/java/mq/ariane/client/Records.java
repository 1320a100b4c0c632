package mq.ariane.client;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import mq.ariane.broker.v1.ReceivedRecords;
import mq.ariane.common.v1.Compression;
import mq.ariane.common.v1.ReplyAddress;

/** Reads messages as brokers store them. The layout of a record is drawn in docs/formats.md of ArianeMQ. */
final class Records {
    private static final int MAGIC = 0xDAA320A7;
    /** Of one whose topic has a length of two bytes. */
    private static final int MAGIC_V2 = 0xDAA320AB;
    private static final int QUEUE_OFFSET_AT = 20;
    private static final int FLAGS_AT = 36;
    private static final int BODY_LENGTH_AT = 84;
    private static final int BORN_HOST_IPV6 = 0x10;
    private static final int STORE_HOST_IPV6 = 0x20;
    private static final int IPV6_MORE_BYTES = 12;
    private static final int COMPRESSED = 1;
    private static final String REPLY_SUFFIX = "_REPLY_TOPIC";
    /** What the contract's durations hold: about 10,000 years. */
    private static final long DURATION_MILLISECONDS_MAX = 315_576_000_000_000L;
    private static final int RANGE_BYTES = 2 * Long.BYTES;

    /** Of the system: the application does not see them. */
    private static final Set<String> HIDDEN = Set.of("KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY", "_SYS_MSG_PRIORITY_",
            "WAIT", "DELAY", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DEQUEUE_MS",
            "TIMER_DEL_UNIQKEY", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "__transactionId__", "RETRY_TOPIC",
            "ORIGIN_MESSAGE_ID", "ORIGIN_QUEUE_ID", "ORIGIN_QUEUE_OFFSET", "RETURNED_OFFSET", "RETURN_ID", "LAST_ERROR",
            "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_REASON", "CONSUMER_DEATHS", "REDRIVEN_FROM",
            "EXPIRES_AT_MS", "__PSEQ#", "__CRC32#", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "CLUSTER", "MSG_TYPE");

    private Records() {}

    /**
     * Reads what a queue of a broker gave, one after the other. What compressed bodies become is taken from the room.
     *
     * @throws ArianeException RECORD_CORRUPTED
     */
    static void read(String brokerName, ReceivedRecords queue, Bodies.Room room, Consumer<Delivery> each) {
        ByteBuffer sizes = queue.getRecordSizes().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer attempts = queue.getAttempts().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer records = queue.getRecords().asReadOnlyByteBuffer();
        Instant until = Instant.ofEpochMilli(queue.getInvisibleUntilMs());
        boolean same = attempts.remaining() == Integer.BYTES;
        try {
            check(same || attempts.remaining() == sizes.remaining());
            while (sizes.hasRemaining()) {
                ByteBuffer record = next(records, sizes.getInt());
                int before = same ? attempts.getInt(0) : attempts.getInt();
                long offset = record.getLong(QUEUE_OFFSET_AT);
                var message = message(record);
                each.accept(new Delivery(Message.of(message, room), brokerName, queue.getQueueId(), offset, before + 1, until,
                        queue.getReceipt(), message.hasReplyAddress() ? message.getReplyAddress() : null));
            }
            check(!records.hasRemaining());
        } catch (BufferUnderflowException | IndexOutOfBoundsException | CharacterCodingException broken) {
            throw ArianeException.of(Status.Code.DATA_LOSS, "RECORD_CORRUPTED",
                    queue.getTopic() + "@" + brokerName + "#" + queue.getQueueId() + ": the bytes are no record");
        }
    }

    private static void check(boolean fits) {
        if (!fits) {
            throw new BufferUnderflowException();
        }
    }

    /** The next bytes, from 0. */
    private static ByteBuffer next(ByteBuffer bytes, int size) {
        check(size >= 0 && size <= bytes.remaining());
        ByteBuffer part = bytes.slice(bytes.position(), size);
        bytes.position(bytes.position() + size);
        return part;
    }

    /** The message of one record. */
    static mq.ariane.common.v1.Message message(ByteBuffer record) throws CharacterCodingException {
        int magic = record.getInt(Integer.BYTES);
        int flags = record.getInt(FLAGS_AT);
        check(record.getInt(0) == record.remaining() && (magic == MAGIC || magic == MAGIC_V2));
        int more = Integer.bitCount(flags & (BORN_HOST_IPV6 | STORE_HOST_IPV6)) * IPV6_MORE_BYTES;
        check(BODY_LENGTH_AT + more <= record.limit());
        record.position(BODY_LENGTH_AT + more);
        ByteBuffer body = next(record, record.getInt());
        int topicBytes = magic == MAGIC ? record.get() & 0xFF : record.getShort() & 0xFFFF;
        String topic = StandardCharsets.UTF_8.newDecoder().decode(next(record, topicBytes)).toString();
        Map<String, String> properties = properties(next(record, record.getShort() & 0xFFFF));
        check(!record.hasRemaining());
        var message = mq.ariane.common.v1.Message.newBuilder().setTopic(topic).setBody(ByteString.copyFrom(body))
                .setCompression(compression(flags)).setTag(properties.getOrDefault("TAGS", ""))
                .setUniqueId(properties.getOrDefault("UNIQ_KEY", ""))
                .setMessageGroup(properties.getOrDefault("__SHARDINGKEY", ""))
                .setPriority(priority(properties.getOrDefault("_SYS_MSG_PRIORITY_", "")))
                .addAllKeys(Arrays.stream(properties.getOrDefault("KEYS", "").split(" ")).filter(key -> !key.isEmpty())
                        .toList());
        ReplyAddress address = replyAddress(topic, properties);
        if (address != null) {
            message.setReplyAddress(address);
        }
        properties.keySet().removeAll(HIDDEN);
        return message.putAllProperties(properties).build();
    }

    /** The pairs of a record. Of a repeated name the last one counts. */
    private static Map<String, String> properties(ByteBuffer pairs) {
        Map<String, String> found = new HashMap<>();
        for (String pair : StandardCharsets.UTF_8.decode(pairs).toString().split("\u0002")) {
            int end = pair.indexOf('\u0001');
            if (end > 0 && end < pair.length() - 1) {
                found.put(pair.substring(0, end), pair.substring(end + 1));
            }
        }
        return found;
    }

    private static Compression compression(int flags) {
        if ((flags & COMPRESSED) == 0) {
            return Compression.COMPRESSION_UNSPECIFIED;
        }
        return switch (flags >> 8 & 7) {
            case 0, 3 -> Compression.COMPRESSION_ZLIB; // RocketMQ before 5 sets no type.
            case 1 -> Compression.COMPRESSION_LZ4;
            case 2 -> Compression.COMPRESSION_ZSTD;
            default -> Compression.COMPRESSION_UNSPECIFIED;
        };
    }

    private static int priority(String text) {
        return text.matches("-?\\d{1,10}") && Long.parseLong(text) == (int) Long.parseLong(text) ? Integer.parseInt(text) : 0;
    }

    /** Who waits for a reply to a request, or for this reply; null for other messages. */
    private static ReplyAddress replyAddress(String topic, Map<String, String> properties) {
        String cluster = properties.getOrDefault("CLUSTER",
                topic.endsWith(REPLY_SUFFIX) ? topic.substring(0, topic.length() - REPLY_SUFFIX.length()) : "");
        if (!properties.containsKey("CORRELATION_ID") || !properties.containsKey("REPLY_TO_CLIENT") || cluster.isEmpty()) {
            return null;
        }
        ReplyAddress.Builder address = ReplyAddress.newBuilder().setCorrelationId(properties.get("CORRELATION_ID"))
                .setClientId(properties.get("REPLY_TO_CLIENT")).setClusterName(cluster).setReplyTopic(cluster + REPLY_SUFFIX);
        String milliseconds = properties.getOrDefault("TTL", "");
        if (milliseconds.matches("\\d{1,18}") && Long.parseLong(milliseconds) <= DURATION_MILLISECONDS_MAX) {
            address.setTimeToLive(Times.of(Duration.ofMillis(Long.parseLong(milliseconds))));
        }
        return address.build();
    }

    /** Queue offsets as the contract has them: first offset and count of each run of them. */
    static ByteString ranges(List<Long> offsets) {
        long[] sorted = offsets.stream().mapToLong(Long::longValue).sorted().distinct().toArray();
        ByteBuffer ranges = ByteBuffer.allocate(sorted.length * RANGE_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        for (int first = 0, end = 0; first < sorted.length; first = end) {
            do {
                end++;
            } while (end < sorted.length && sorted[end] == sorted[end - 1] + 1);
            ranges.putLong(sorted[first]).putLong(end - first);
        }
        return ByteString.copyFrom(ranges.flip());
    }
}
