package mq.ariane.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.function.Supplier;
import mq.ariane.common.v1.Compression;

/** How a client makes its calls: {@code ClientSettings.builder().callTimeout(Duration.ofSeconds(5)).build()}. */
public final class ClientSettings {
    final Tls tls;
    final Path credentials;
    final Supplier<String> token;
    final Duration tryTimeout;
    final Duration callTimeout;
    final int maxMessageBytes;
    final Compression compression;
    final String producerGroup;
    final Tracing tracing;

    private ClientSettings(Builder built) {
        tls = built.tls;
        credentials = built.credentials;
        token = built.token;
        tryTimeout = built.tryTimeout;
        callTimeout = built.callTimeout;
        maxMessageBytes = built.maxMessageBytes;
        compression = built.compression;
        producerGroup = built.producerGroup;
        tracing = built.tracing;
    }

    /** TLS and credentials as the environment says, and all else as the builder begins with it. */
    public static ClientSettings defaults() {
        return builder().build();
    }

    /** Begins with the defaults. */
    public static Builder builder() {
        return new Builder();
    }

    boolean logsIn() {
        return credentials != null || token != null;
    }

    String userAgent(String id) {
        String group = producerGroup.isEmpty() ? "" : " producer-group/" + producerGroup;
        return "ariane-java/" + Client.VERSION + " client/" + id + group;
    }

    /** Collects what differs from the defaults. */
    public static final class Builder {
        private Tls tls = Tls.ofEnvironment();
        private Path credentials = Tls.path("ARIANE_CREDENTIALS");
        private Supplier<String> token;
        private Duration tryTimeout = Duration.ofSeconds(3);
        private Duration callTimeout = Duration.ofSeconds(30);
        private int maxMessageBytes = 64 << 20;
        private Compression compression = Compression.COMPRESSION_UNSPECIFIED;
        private String producerGroup = "";
        private Tracing tracing;

        private Builder() {}

        /** The files that secure connections; those of the environment unless given. */
        public Builder tls(Tls files) {
            tls = files;
            return this;
        }

        /**
         * The file of {@code ariane credential create} with the key by which the client proves who it is, read for each
         * login; that of {@code ARIANE_CREDENTIALS} unless given. In place of a token.
         */
        public Builder credentials(Path keyFile) {
            credentials = keyFile;
            token = null;
            return this;
        }

        /** Gives a token of an OpenID provider for each login, in place of a key. */
        public Builder token(Supplier<String> tokens) {
            token = tokens;
            credentials = null;
            return this;
        }

        /** Bounds one try of a call; 3 s unless given. */
        public Builder tryTimeout(Duration limit) {
            tryTimeout = checked(limit);
            return this;
        }

        /** Bounds a call with all its repeats, unless the call says otherwise; 30 s unless given. */
        public Builder callTimeout(Duration limit) {
            callTimeout = checked(limit);
            return this;
        }

        /** Bounds what one answer may have; 64 MiB unless given. */
        public Builder maxMessageBytes(int limit) {
            if (limit < 1) {
                throw new IllegalArgumentException("maxMessageBytes is " + limit + ": 1 or more are expected");
            }
            maxMessageBytes = limit;
            return this;
        }

        /**
         * How bodies of 4 KiB and more are compressed that become smaller by it; not at all unless given. Every client
         * decompresses what it receives.
         */
        public Builder compression(Compression how) {
            compression = how;
            return this;
        }

        /** Is told to operators who ask who sends. */
        public Builder producerGroup(String group) {
            if (!group.matches("[!-~]*")) {
                throw new IllegalArgumentException("producer group \"" + group + "\" is not printable, or has a space");
            }
            producerGroup = group;
            return this;
        }

        /** Is told of sends and of calls of listeners, to make spans of them; nobody is unless given. */
        public Builder tracing(Tracing tracing) {
            this.tracing = tracing;
            return this;
        }

        /** The settings, which no later change of the builder reaches. */
        public ClientSettings build() {
            return new ClientSettings(this);
        }

        private static Duration checked(Duration limit) {
            if (limit.isNegative()) {
                throw new IllegalArgumentException("a timeout is negative: " + limit);
            }
            return limit;
        }
    }
}
