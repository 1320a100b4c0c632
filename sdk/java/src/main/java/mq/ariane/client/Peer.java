package mq.ariane.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A process that must be at an address: routes may lie, certificates do not.
 *
 * @param kind {@code broker} or {@code namesrv}; empty for any
 * @param name empty for any
 */
record Peer(String address, String kind, String name) {
    private static final Pattern MEMBER = Pattern.compile("ariane://[^/\\s]+/([^/\\s]+)/([^/\\s]+)");
    private static final Pattern LOOPBACK = Pattern.compile("(localhost|127(\\.\\d+){3}|\\[::1\\]):\\d+");
    private static final int URI = 6;
    /**
     * Where a call says which process it is for: an address is used again, and who is there now refuses what is meant
     * for another.
     */
    private static final Metadata.Key<String> MEANT = Metadata.Key.of("x-ariane-meant-for", Metadata.ASCII_STRING_MARSHALLER);

    static Peer any(String address) {
        return new Peer(address, "", "");
    }

    static Peer nameServer(String address) {
        return new Peer(address, "namesrv", "");
    }

    static Peer broker(String address, String name) {
        return new Peer(address, "broker", name);
    }

    /** Whether it is of this machine, by the text of the address alone. */
    boolean isLoopback() {
        return LOOPBACK.matcher(address).matches();
    }

    /** Says with each call which broker it is for, where its cluster is known. */
    ClientInterceptor meaning(UnaryOperator<String> clusterOf) {
        return new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                    @Override
                    public void start(Listener<A> answers, Metadata said) {
                        String cluster = kind.equals("broker") ? clusterOf.apply(name) : null;
                        if (cluster != null) {
                            said.put(MEANT, cluster + "/" + name);
                        }
                        super.start(answers, said);
                    }
                };
            }
        };
    }

    /** Checks who is there. */
    void check(X509Certificate shown) throws CertificateException {
        Matcher found = MEMBER.matcher(memberUri(shown));
        if (!found.matches()) {
            throw new CertificateException("the certificate of the server names no process of a cluster");
        }
        boolean isKind = kind.isEmpty() || kind.equals(found.group(1))
                || kind.equals("broker") && found.group(1).equals("replica");
        if (!isKind || !name.isEmpty() && !name.equals(found.group(2))) {
            throw new CertificateException("the certificate of the server is of " + found.group(1) + " " + found.group(2)
                    + ", not of " + (kind + " " + name).trim());
        }
    }

    /** The URI that a certificate names; empty where that is not one. */
    static String memberUri(X509Certificate shown) throws CertificateException {
        List<String> uris = shown.getSubjectAlternativeNames() == null ? List.of()
                : shown.getSubjectAlternativeNames().stream().filter(each -> each.get(0).equals(URI))
                        .map(each -> (String) each.get(1)).toList();
        return uris.size() == 1 ? uris.get(0) : "";
    }
}
