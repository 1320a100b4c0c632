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
import java.util.zip.Deflater;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;
import mq.ariane.common.v1.Compression;
import net.jpountz.lz4.LZ4Compressor;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4FrameInputStream;
import net.jpountz.lz4.LZ4FrameOutputStream;
import net.jpountz.xxhash.XXHashFactory;

/** Bodies of messages, compressed and as they were, in the formats of RocketMQ. */
final class Bodies {
    /** Bounds what a body becomes: a small one may claim to be huge. */
    private static final int BYTES_MAX = 32 << 20;

    /** Below it LZ4 has but one level. */
    private static final int LZ4_HIGH_LEVEL_MIN = 3;

    private Bodies() {}

    /** A large body of a message compressed as the settings say, unless that makes it larger. */
    static void pack(byte[] body, Client.Settings settings, mq.ariane.common.v1.Message.Builder message) {
        byte[] packed = body;
        if (settings.compression() != Compression.COMPRESSION_UNSPECIFIED && body.length >= settings.compressBytesMin()) {
            packed = compressed(body, settings.compression(), settings.compressionLevel());
        }
        boolean smaller = packed.length < body.length;
        message.setBody(UnsafeByteOperations.unsafeWrap(smaller ? packed : body));
        message.setCompression(smaller ? settings.compression() : Compression.COMPRESSION_UNSPECIFIED);
    }

    private static byte[] compressed(byte[] body, Compression kind, int level) {
        return switch (kind) {
            case COMPRESSION_LZ4 -> lz4(body, level);
            case COMPRESSION_ZSTD -> Zstd.compress(body, level);
            case COMPRESSION_ZLIB -> zlib(body, level);
            default -> throw new IllegalArgumentException("compression " + kind + " is not known");
        };
    }

    private static byte[] zlib(byte[] body, int level) {
        Deflater deflater = new Deflater(level);
        ByteArrayOutputStream out = new ByteArrayOutputStream(body.length / 2);
        try (OutputStream stream = new DeflaterOutputStream(out, deflater)) {
            stream.write(body);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible); // Memory takes all.
        } finally {
            deflater.end();
        }
        return out.toByteArray();
    }

    private static byte[] lz4(byte[] body, int level) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(body.length / 2);
        try (OutputStream stream = lz4(out, level)) {
            stream.write(body);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible); // Memory takes all.
        }
        return out.toByteArray();
    }

    private static OutputStream lz4(OutputStream out, int level) throws IOException {
        LZ4Factory factory = LZ4Factory.fastestInstance();
        LZ4Compressor compressor = level < LZ4_HIGH_LEVEL_MIN ? factory.fastCompressor() : factory.highCompressor(level);
        return new LZ4FrameOutputStream(out, LZ4FrameOutputStream.BLOCKSIZE.SIZE_64KB, -1, compressor,
                XXHashFactory.fastestInstance().hash32(), LZ4FrameOutputStream.FLG.Bits.BLOCK_INDEPENDENCE);
    }

    /**
     * The body as it was before its producer compressed it.
     *
     * @throws IOException it is damaged, or becomes too large
     */
    static byte[] original(ByteString stored, Compression kind) throws IOException {
        if (kind == Compression.COMPRESSION_UNSPECIFIED) {
            return stored.toByteArray();
        }
        try (InputStream stream = decompressing(stored.newInput(), kind)) {
            byte[] body = stream.readNBytes(BYTES_MAX + 1);
            if (body.length > BYTES_MAX) {
                throw new IOException("a body becomes larger than " + BYTES_MAX + " bytes");
            }
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
