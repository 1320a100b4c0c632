package mq.ariane.client;

import java.nio.file.Path;

/**
 * Files for TLS, PEM. They are read again within a minute when they change: nothing is restarted.
 *
 * @param ca the authority of the processes of the cluster, {@code members.pem} of {@code ariane tls}; null: connections
 *     are plain
 * @param certificate says who the client is; null where credentials do
 * @param key its private key
 * @param oldest the oldest version that is spoken: {@code TLSv1.3} or {@code TLSv1.2}
 */
public record Tls(Path ca, Path certificate, Path key, String oldest) {
    /** Connections without TLS. */
    public static final Tls PLAIN = new Tls(null, null, null, "TLSv1.3");

    /** Checks what belongs together. */
    public Tls {
        if (ca == null && (certificate != null || key != null)) {
            throw new IllegalArgumentException("tls: a certificate needs the authority of the cluster, too: ca, or ARIANE_TLS_CA");
        }
        if ((certificate == null) != (key == null)) {
            throw new IllegalArgumentException("tls: a certificate and its key belong together");
        }
        if (!oldest.equals("TLSv1.3") && !oldest.equals("TLSv1.2")) {
            throw new IllegalArgumentException("tls: the oldest version is TLSv1.3 or TLSv1.2, not " + oldest);
        }
    }

    /** TLS 1.3 without a certificate of the client. */
    public static Tls of(Path ca) {
        return new Tls(ca, null, null, "TLSv1.3");
    }

    /** The same with a certificate and its private key, which say who the client is. */
    public Tls withCertificate(Path own, Path privateKey) {
        return new Tls(ca, own, privateKey, oldest);
    }

    /** What {@code ARIANE_TLS_CA}, {@code ARIANE_TLS_CERTIFICATE} and {@code ARIANE_TLS_KEY} say. */
    public static Tls ofEnvironment() {
        return new Tls(path("ARIANE_TLS_CA"), path("ARIANE_TLS_CERTIFICATE"), path("ARIANE_TLS_KEY"), "TLSv1.3");
    }

    static Path path(String variable) {
        String named = System.getenv().getOrDefault(variable, "");
        return named.isEmpty() ? null : Path.of(named);
    }
}
