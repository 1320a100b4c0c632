package mq.ariane.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import io.grpc.util.AdvancedTlsX509KeyManager;
import io.grpc.util.AdvancedTlsX509TrustManager;
import java.io.IOException;
import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLEngine;

/** TLS of a client's connections. */
final class Security implements AutoCloseable {
    private static final long LOOK_MINUTES = 1;

    private final Tls tls;
    private final AdvancedTlsX509KeyManager keys = new AdvancedTlsX509KeyManager();
    private final ScheduledExecutorService looks;

    /** Reads the files. */
    Security(Tls tls) {
        this.tls = tls;
        looks = tls.ca() == null ? null : Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task, "ariane-certificates");
            thread.setDaemon(true);
            return thread;
        });
        if (tls.ca() != null) {
            credentials(Peer.any("")); // To say at once what is wrong with the file.
        }
        if (tls.certificate() != null) {
            try {
                keys.updateIdentityCredentials(tls.certificate().toFile(), tls.key().toFile(), LOOK_MINUTES,
                        TimeUnit.MINUTES, looks);
            } catch (IOException | GeneralSecurityException error) {
                close();
                throw new IllegalArgumentException("tls: " + tls.certificate() + ", " + tls.key() + ": "
                        + error.getMessage(), error);
            }
        }
    }

    /** Takes a certificate for that of a process. */
    private final class Check implements AdvancedTlsX509TrustManager.SslSocketAndEnginePeerVerifier {
        private final Peer peer;

        Check(Peer peer) {
            this.peer = peer;
        }

        @Override
        public void verifyPeerCertificate(X509Certificate[] chain, String type, Socket socket)
                throws CertificateException {
            throw new CertificateException("a connection is made by an engine");
        }

        @Override
        public void verifyPeerCertificate(X509Certificate[] chain, String type, SSLEngine engine)
                throws CertificateException {
            String version = engine.getHandshakeSession().getProtocol();
            if (version.compareTo(tls.oldest()) < 0) {
                throw new CertificateException("the server speaks " + version + ", which is too old");
            }
            peer.check(chain[0]);
        }
    }

    /** How connections to a process are made. */
    ChannelCredentials credentials(Peer peer) {
        if (tls.ca() == null) {
            return InsecureChannelCredentials.create();
        }
        try {
            AdvancedTlsX509TrustManager trust = AdvancedTlsX509TrustManager.newBuilder()
                    .setVerification(AdvancedTlsX509TrustManager.Verification.CERTIFICATE_AND_HOST_NAME_VERIFICATION)
                    .setSslSocketAndEnginePeerVerifier(new Check(peer)).build();
            trust.updateTrustCredentials(tls.ca().toFile(), LOOK_MINUTES, TimeUnit.MINUTES, looks);
            TlsChannelCredentials.Builder made = TlsChannelCredentials.newBuilder().trustManager(trust);
            return tls.certificate() == null ? made.build() : made.keyManager(keys).build();
        } catch (IOException | GeneralSecurityException error) {
            throw new IllegalArgumentException("tls: " + tls.ca() + ": " + error.getMessage(), error);
        }
    }

    @Override
    public void close() {
        if (looks != null) {
            looks.shutdownNow();
        }
    }
}
