package mq.ariane.client;

import com.google.protobuf.ByteString;
import io.grpc.Attributes;
import io.grpc.CallCredentials;
import io.grpc.Channel;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Duration;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLSession;
import mq.ariane.common.v1.BeginLoginRequest;
import mq.ariane.common.v1.FinishLoginRequest;
import mq.ariane.common.v1.KeyProof;
import mq.ariane.common.v1.LoginServiceGrpc;

/** Proves who the client is, once on each connection to a process, and again before the proof ends. */
final class Login extends CallCredentials {
    /** How long after a renewal that failed it is tried again. */
    private static final Duration AGAIN = Duration.ofSeconds(5);

    private static final long CALL_S = 10;
    private static final Pattern CREDENTIAL = Pattern.compile("^credential: ([A-Za-z0-9_-]{1,64})\\r?$", Pattern.MULTILINE);
    private static final Pattern KEY = Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]+)-----END PRIVATE KEY-----");
    private static final System.Logger LOG = System.getLogger(Login.class.getName());

    /** A key, and the id of its credential. */
    record Key(String id, PrivateKey key) {
        /** Reads a file of {@code ariane credential create}. Errors say nothing of what is in it. */
        static Key read(Path path) {
            try {
                String text = Files.readString(path, StandardCharsets.ISO_8859_1);
                Matcher id = CREDENTIAL.matcher(text);
                Matcher body = KEY.matcher(text);
                if (id.find() && body.find()) {
                    byte[] encoded = Base64.getMimeDecoder().decode(body.group(1));
                    return new Key(id.group(1),
                            KeyFactory.getInstance("Ed25519").generatePrivate(new PKCS8EncodedKeySpec(encoded)));
                }
            } catch (IOException error) {
                throw new IllegalArgumentException("credentials: " + error.getMessage() + ": cannot be read");
            } catch (GeneralSecurityException | IllegalArgumentException none) {
                // It is told below.
            }
            throw new IllegalArgumentException("credentials: " + path + ": not a file that ariane credential create has made");
        }

        @Override
        public String toString() {
            return "Key[" + id + "]";
        }
    }

    /** One connection, by its own end, and its login. */
    private static final class Connection {
        final SocketAddress own;
        final SSLSession session;
        CompletableFuture<Void> login = new CompletableFuture<>();
        long renewNanos;
        long endNanos;
        boolean renewing;

        Connection(Attributes attributes) {
            own = attributes.get(Grpc.TRANSPORT_ATTR_LOCAL_ADDR);
            session = attributes.get(Grpc.TRANSPORT_ATTR_SSL_SESSION);
        }
    }

    /** Looks at which connection a call is on. */
    private static final class Looking extends CallCredentials {
        volatile SocketAddress own;

        @Override
        public void applyRequestMetadata(RequestInfo about, Executor executor, MetadataApplier applier) {
            own = about.getTransportAttrs().get(Grpc.TRANSPORT_ATTR_LOCAL_ADDR);
            applier.apply(new Metadata());
        }
    }

    private final Client client;
    private final ClientSettings settings;
    private final Channel channel;
    private Connection connection;

    Login(Client client, Channel channel) {
        this.client = client;
        this.channel = channel;
        settings = client.settings();
    }

    /** Lets a call go when its connection has logged in. */
    @Override
    public void applyRequestMetadata(RequestInfo about, Executor executor, MetadataApplier applier) {
        of(about.getTransportAttrs()).whenComplete((done, failure) -> {
            if (failure == null) {
                applier.apply(new Metadata());
            } else {
                applier.fail(statusOf(failure));
            }
        });
    }

    private static Status statusOf(Throwable failure) {
        Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
        return cause instanceof StatusRuntimeException said ? said.getStatus().withCause(said) // Its details.
                : Status.UNAUTHENTICATED.withDescription(cause.getMessage());
    }

    private synchronized CompletableFuture<Void> of(Attributes attributes) {
        long now = System.nanoTime();
        if (connection == null || !attributes.get(Grpc.TRANSPORT_ATTR_LOCAL_ADDR).equals(connection.own)
                || connection.login.isCompletedExceptionally()
                || connection.login.isDone() && connection.endNanos - now < 0) {
            connection = new Connection(attributes);
        } else if (!connection.login.isDone() || connection.renewNanos - now > 0 || connection.renewing) {
            return connection.login;
        }
        Connection at = connection;
        at.renewing = true;
        try {
            client.shared(() -> prove(at)).whenComplete((life, failure) -> answer(at, life, failure));
        } catch (ArianeException closed) {
            answer(at, null, closed);
        }
        return at.login;
    }

    private synchronized void answer(Connection at, Duration life, Throwable failure) {
        long now = System.nanoTime();
        at.renewing = false;
        if (failure == null) {
            at.endNanos = now + life.toNanos();
            at.renewNanos = now + life.toNanos() / 2;
            at.login.complete(null);
        } else if (at.login.isDone() && at.endNanos - now > 0) {
            LOG.log(Level.WARNING, "the login was not renewed: {0}", statusOf(failure).getDescription());
            at.renewNanos = now + AGAIN.toNanos();
        } else {
            CompletableFuture<Void> waiting = at.login.isDone() ? new CompletableFuture<>() : at.login;
            at.login = waiting;
            waiting.completeExceptionally(failure);
        }
    }

    /** Logs in on a connection; returns for how long that holds. */
    private Duration prove(Connection at) {
        var stub = LoginServiceGrpc.newBlockingStub(channel);
        Looking looking = new Looking();
        FinishLoginRequest.Builder request = FinishLoginRequest.newBuilder();
        if (settings.token != null) {
            request.setBearerToken(settings.token.get());
        } else {
            ByteString nonce = stub.withDeadlineAfter(CALL_S, TimeUnit.SECONDS)
                    .beginLogin(BeginLoginRequest.getDefaultInstance()).getServerNonce();
            request.setKey(proof(at, nonce.toByteArray()));
        }
        try {
            var answer = stub.withCallCredentials(looking).withDeadlineAfter(CALL_S, TimeUnit.SECONDS)
                    .finishLogin(request.build());
            check(at, looking);
            return Times.of(answer.getLifetime());
        } catch (StatusRuntimeException refused) {
            check(at, looking);
            throw refused;
        }
    }

    private static void check(Connection at, Looking looking) {
        if (looking.own != null && !looking.own.equals(at.own)) {
            throw Status.UNAVAILABLE.withDescription("the connection has ended before its login").asRuntimeException();
        }
    }

    /** Signs both nonces, the server's certificate and its name. */
    private KeyProof proof(Connection at, byte[] serverNonce) {
        Key key = Key.read(settings.credentials);
        byte[] nonce = new byte[32];
        new SecureRandom().nextBytes(nonce);
        byte[] fingerprint = new byte[32];
        byte[] name = new byte[0];
        byte[] id = key.id().getBytes(StandardCharsets.US_ASCII);
        try {
            if (at.session != null) {
                X509Certificate shown = (X509Certificate) at.session.getPeerCertificates()[0];
                fingerprint = MessageDigest.getInstance("SHA-256").digest(shown.getEncoded());
                name = Peer.memberUri(shown).getBytes(StandardCharsets.UTF_8);
            } else if (settings.tls.ca() != null) {
                // Zeros stand for plain text: such a proof would be good elsewhere.
                throw new GeneralSecurityException("the certificate of the server is not known");
            }
            Signature signature = Signature.getInstance("Ed25519");
            signature.initSign(key.key());
            for (byte[] part : new byte[][] {"ariane-login-v1\0".getBytes(StandardCharsets.US_ASCII), serverNonce, nonce,
                fingerprint, {(byte) name.length}, name, id}) {
                signature.update(part);
            }
            return KeyProof.newBuilder().setCredentialId(key.id()).setClientNonce(ByteString.copyFrom(nonce))
                    .setSignature(ByteString.copyFrom(signature.sign())).build();
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalArgumentException("no proof can be made: " + error.getMessage());
        }
    }
}
