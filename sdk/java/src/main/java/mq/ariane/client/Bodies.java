package mq.ariane.client;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdInputStream;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;
import mq.ariane.common.v1.Compression;
import net.jpountz.lz4.LZ4FrameInputStream;
import net.jpountz.lz4.LZ4FrameOutputStream;

/** Bodies of messages, compressed and as they were, in the formats of RocketMQ. */
final class Bodies {
    /** Bounds what a body becomes: a small one may claim to be huge. */
    private static final int BYTES_MAX = 32 << 20;

    /** Bounds what the compressed bodies of one answer of a broker become together. */
    static final int ANSWER_BYTES_MAX = 512 << 20;

    /** What compressed bodies may still become. */
    static final class Room {
        private int bytes;

        Room(int bytes) {
            this.bytes = bytes;
        }
    }

    /** The size of a body from which it is compressed. */
    private static final int COMPRESS_BYTES_MIN = 4096;

    private Bodies() {}

    /** A large body of a message compressed, unless that makes it larger. */
    static void pack(byte[] body, Compression kind, mq.ariane.common.v1.Message.Builder message) {
        boolean large = kind != Compression.COMPRESSION_UNSPECIFIED && body.length >= COMPRESS_BYTES_MIN;
        byte[] packed = large ? compressed(body, kind) : body;
        boolean smaller = packed.length < body.length;
        message.setBody(UnsafeByteOperations.unsafeWrap(smaller ? packed : body));
        message.setCompression(smaller ? kind : Compression.COMPRESSION_UNSPECIFIED);
    }

    private static byte[] compressed(byte[] body, Compression kind) {
        if (kind == Compression.COMPRESSION_ZSTD) {
            return Zstd.compress(body); // Its stream would not say how large the body was.
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream(body.length / 2);
        try (OutputStream stream = compressing(out, kind)) {
            stream.write(body);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible); // Memory takes all.
        }
        return out.toByteArray();
    }

    private static OutputStream compressing(OutputStream out, Compression kind) throws IOException {
        return switch (kind) {
            case COMPRESSION_LZ4 -> new LZ4FrameOutputStream(out, LZ4FrameOutputStream.BLOCKSIZE.SIZE_64KB,
                    LZ4FrameOutputStream.FLG.Bits.BLOCK_INDEPENDENCE);
            case COMPRESSION_ZLIB -> new DeflaterOutputStream(out);
            default -> throw new IllegalArgumentException("compression " + kind + " is not known");
        };
    }

    /**
     * The body as it was before its producer compressed it; it takes its size from the room.
     *
     * @throws IOException it is damaged, or becomes larger than a body may, or than there is room
     */
    static byte[] original(ByteString stored, Compression kind, Room room) throws IOException {
        if (kind == Compression.COMPRESSION_UNSPECIFIED) {
            return stored.toByteArray();
        }
        try (InputStream stream = decompressing(stored.newInput(), kind)) {
            int most = Math.min(BYTES_MAX, room.bytes);
            byte[] body = stream.readNBytes(most + 1);
            if (body.length > most) {
                throw new IOException("a body becomes larger than " + most + " bytes");
            }
            room.bytes -= body.length;
            return body;
        } catch (RuntimeException damaged) { // LZ4's reader says so of some damage.
            throw new IOException("a body is damaged", damaged);
        }
    }

    private static InputStream decompressing(InputStream stored, Compression kind) throws IOException {
        return switch (kind) {
            case COMPRESSION_LZ4 -> new LZ4FrameInputStream(stored);
            case COMPRESSION_ZSTD -> new ZstdInputStream(stored);
            case COMPRESSION_ZLIB -> new InflaterInputStream(stored);
            default -> throw new IOException("a body is compressed in a way that is not known");
        };
    }
}
