package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import mq.ariane.broker.v1.ReceivedRecords;
import mq.ariane.common.v1.Compression;
import org.junit.jupiter.api.Test;

class RecordsTest {
    /** Those that every reader of the format is tried with. */
    private static final Path GOLDEN = Path.of("../../storage/record/tests/golden");

    /** A record with these pairs of properties, names and values in turn. */
    static byte[] record(String topic, String body, long offset, String... pairs) {
        StringBuilder properties = new StringBuilder();
        for (int place = 0; place < pairs.length; place += 2) {
            properties.append(pairs[place]).append('\u0001').append(pairs[place + 1]).append('\u0002');
        }
        byte[][] parts = {body.getBytes(StandardCharsets.UTF_8), topic.getBytes(StandardCharsets.UTF_8),
            properties.toString().getBytes(StandardCharsets.UTF_8)};
        int size = 91 + parts[0].length + parts[1].length + parts[2].length;
        return ByteBuffer.allocate(size).putInt(size).putInt(0xDAA320A7).putLong(20, offset).position(84)
                .putInt(parts[0].length).put(parts[0]).put((byte) parts[1].length).put(parts[1])
                .putShort((short) parts[2].length).put(parts[2]).array();
    }

    /** What a queue gives, each delivered as often before as the others, or as the numbers say. */
    static ReceivedRecords queue(List<byte[]> records, int... attempts) {
        ByteBuffer sizes = ByteBuffer.allocate(records.size() * 4).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer numbers = ByteBuffer.allocate(attempts.length * 4).order(ByteOrder.LITTLE_ENDIAN);
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (byte[] record : records) {
            sizes.putInt(record.length);
            all.writeBytes(record);
        }
        for (int each : attempts) {
            numbers.putInt(each);
        }
        return ReceivedRecords.newBuilder().setTopic(FakeProcess.TOPIC).setQueueId(3).setReceipt(ByteString.copyFromUtf8("r"))
                .setAttempts(ByteString.copyFrom(numbers.flip())).setRecordSizes(ByteString.copyFrom(sizes.flip()))
                .setRecords(ByteString.copyFrom(all.toByteArray())).setInvisibleUntilMs(5000).build();
    }

    private static List<Delivery> read(ReceivedRecords queue) {
        List<Delivery> found = new ArrayList<>();
        Records.read("broker-a", queue, new Bodies.Room(Bodies.ANSWER_BYTES_MAX), found::add);
        return found;
    }

    @Test
    void recordsAreRead() throws Exception {
        JsonObject cases = JsonParser.parseString(Files.readString(GOLDEN.resolve("cases.json"))).getAsJsonObject();
        assertFalse(cases.isEmpty());
        for (String name : cases.keySet()) {
            JsonObject wanted = cases.getAsJsonObject(name);
            byte[] record = Files.readAllBytes(GOLDEN.resolve(name + ".bin"));
            var message = Records.message(ByteBuffer.wrap(record));
            Map<String, String> known = new TreeMap<>(message.getPropertiesMap());
            known.put("TAGS", message.getTag());
            known.put("KEYS", String.join(" ", message.getKeysList()));
            known.put("UNIQ_KEY", message.getUniqueId());
            known.put("__SHARDINGKEY", message.getMessageGroup());
            known.values().removeIf(String::isEmpty);
            Map<String, String> properties = new HashMap<>();
            wanted.getAsJsonObject("properties").asMap().forEach((key, value) -> properties.put(key, value.getAsString()));
            properties.keySet().removeAll(List.of("TRAN_MSG", "PGROUP", "WAIT"));
            assertEquals(properties, known, name);
            assertEquals(wanted.get("topic").getAsString(), message.getTopic(), name);
            assertArrayEquals(HexFormat.of().parseHex(wanted.get("body").getAsString()), message.getBody().toByteArray(), name);
            assertEquals(wanted.get("queue_offset").getAsLong(), read(queue(List.of(record), 0)).get(0).offset(), name);
            for (int size = 0; size < record.length; size++) {
                byte[] part = java.util.Arrays.copyOf(record, size);
                assertCorrupted(queue(List.of(part), 0));
            }
        }
    }

    @Test
    void propertiesOfTheSystemBecomeFields() {
        Delivery found = read(queue(List.of(record("orders", "", 7, "color", "blue", "color", "red", "WAIT", "true",
                "_SYS_MSG_PRIORITY_", "-3", "KEYS", "a  b ", "", "nameless", "empty", "", "__CRC32#", "0123456789")), 0)).get(0);
        assertEquals(Map.of("color", "red"), found.message().properties());
        assertEquals(List.of("a", "b"), found.message().keys());
        assertEquals(-3, found.message().priority());
        for (String text : List.of("x", "2147483648", "99999999999")) {
            assertEquals(0, read(queue(List.of(record("orders", "", 7, "_SYS_MSG_PRIORITY_", text)), 0)).get(0).message().priority());
        }
        String[] asks = {"CORRELATION_ID", "c-1", "REPLY_TO_CLIENT", "me", "TTL", "1500", "CLUSTER", "main"};
        var address = read(queue(List.of(record("orders", "", 7, asks)), 0)).get(0).replyAddress();
        assertEquals("main_REPLY_TOPIC main c-1 me", String.join(" ", address.getReplyTopic(), address.getClusterName(),
                address.getCorrelationId(), address.getClientId()));
        assertEquals(Duration.ofMillis(1500), Times.of(address.getTimeToLive()));
        for (String tooLong : List.of("315576000000001", "999999999999999999")) {
            asks[5] = tooLong;
            assertFalse(read(queue(List.of(record("orders", "", 7, asks)), 0)).get(0).replyAddress().hasTimeToLive());
        }
        asks[5] = "9223372036855";
        String[] reply = java.util.Arrays.copyOf(asks, 6);
        assertEquals(null, read(queue(List.of(record("orders", "", 7, reply)), 0)).get(0).replyAddress());
        assertEquals("main", read(queue(List.of(record("main_REPLY_TOPIC", "", 7, reply)), 0)).get(0).replyAddress().getClusterName());
    }

    @Test
    void recordsOfAQueueHaveTheirAttemptsAndOneReceipt() {
        List<byte[]> records = List.of(record("orders", "x", 7), record("orders", "y", 9));
        assertEquals(List.of(1, 1), read(queue(records, 0)).stream().map(Delivery::attempt).toList());
        List<Delivery> found = read(queue(records, 0, 2));
        assertEquals(List.of(1, 3), found.stream().map(Delivery::attempt).toList());
        assertEquals(List.of(7L, 9L), found.stream().map(Delivery::offset).toList());
        assertEquals(5000, found.get(1).invisibleUntil().toEpochMilli());
        assertCorrupted(queue(records));
        assertCorrupted(queue(records, 0, 1, 2));
        assertCorrupted(queue(records, 0).toBuilder().setRecords(ByteString.copyFrom(records.get(0))).build());
        assertCorrupted(queue(records, 0).toBuilder().setRecordSizes(ByteString.copyFrom(new byte[] {-1, -1, -1, -1})).build());
        assertCorrupted(queue(records, 0).toBuilder().setRecordSizes(ByteString.EMPTY).build());
    }

    private static void assertCorrupted(ReceivedRecords queue) {
        assertEquals("RECORD_CORRUPTED", assertThrows(ArianeException.class, () -> read(queue)).reason());
    }

    @Test
    void bodiesOfAnAnswerBecomeNoMoreThanThereIsRoom() throws Exception {
        for (Compression kind : List.of(Compression.COMPRESSION_LZ4, Compression.COMPRESSION_ZSTD, Compression.COMPRESSION_ZLIB)) {
            var stored = mq.ariane.common.v1.Message.newBuilder();
            Bodies.pack(new byte[10_000], kind, stored);
            Bodies.Room room = new Bodies.Room(25_000);
            for (int wanted : new int[] {10_000, 10_000, stored.getBody().size()}) {
                Message found = Message.of(stored.build(), room);
                assertEquals(wanted, found.body().length);
                assertEquals(wanted == 10_000 ? Compression.COMPRESSION_UNSPECIFIED : kind, found.compression());
            }
        }
    }

    @Test
    void offsetsAreToldAsRanges() {
        ByteBuffer found = Records.ranges(List.of(9L, 1L, 4L, 3L, 3L)).asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
        List<Long> numbers = new ArrayList<>();
        while (found.hasRemaining()) {
            numbers.add(found.getLong());
        }
        assertEquals(List.of(1L, 1L, 3L, 2L, 9L, 1L), numbers);
    }
}
