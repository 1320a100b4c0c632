package mq.ariane.client;

import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.stub.AbstractStub;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.regex.Pattern;
import mq.ariane.common.v1.Compression;
import mq.ariane.namesrv.v1.BrokerRoute;
import mq.ariane.namesrv.v1.GetRouteRequest;
import mq.ariane.namesrv.v1.Route;
import mq.ariane.namesrv.v1.RouteServiceGrpc;
import mq.ariane.namesrv.v1.RouteServiceGrpc.RouteServiceBlockingStub;

/** One program's view of a cluster. Close it at the end. */
public final class Client implements AutoCloseable {
    /** The version of this library. */
    public static final String VERSION = "0.1.0";

    private static final Duration ROUTE_LIFE = Duration.ofSeconds(30);

    private static final Pattern ADDRESS = Pattern.compile("(\\[[^\\]\\s]+\\]|[^\\s:]+):[1-9]\\d{0,4}");

    private record CachedRoute(Route route, long expiresNanos) {}

    /**
     * How calls are made.
     *
     * @param channelCredentials secure connections
     * @param callCredentials go along with each call; null where none do
     * @param tryTimeout bounds one try of a call
     * @param callTimeout bounds a call with all its repeats, unless the call says otherwise
     * @param maxMessageBytes bounds what one answer may have
     * @param compression how bodies are compressed that are large and become smaller by it
     * @param compressBytesMin the size of a body from which it is compressed
     * @param compressionLevel from 1, fast, to 9, small
     */
    public record Settings(ChannelCredentials channelCredentials, CallCredentials callCredentials, Duration tryTimeout,
            Duration callTimeout, int maxMessageBytes, Compression compression, int compressBytesMin,
            int compressionLevel) {
        /** Checks what has bounds. */
        public Settings {
            if (compressionLevel < 1 || compressionLevel > 9) {
                throw new IllegalArgumentException("compression level " + compressionLevel + ": from 1 to 9");
            }
        }

        /** Settings that are good for a cluster without TLS; bodies are not compressed. */
        public static Settings defaults() {
            return new Settings(InsecureChannelCredentials.create(), null, Duration.ofSeconds(3), Duration.ofSeconds(30),
                    64 << 20, Compression.COMPRESSION_UNSPECIFIED, 4096, 5);
        }

        /** The same with TLS and credentials. */
        public Settings secured(ChannelCredentials channel, CallCredentials call) {
            return new Settings(channel, call, tryTimeout, callTimeout, maxMessageBytes, compression, compressBytesMin,
                    compressionLevel);
        }

        /** The same with other time limits. */
        public Settings timed(Duration ofTry, Duration ofCall) {
            return new Settings(channelCredentials, callCredentials, ofTry, ofCall, maxMessageBytes, compression,
                    compressBytesMin, compressionLevel);
        }

        /** The same with bodies of 4096 bytes and more compressed. Every client decompresses what it receives. */
        public Settings compressed(Compression how) {
            return compressed(how, 4096, 5);
        }

        /** The same from another size on, and at a level from 1, fast, to 9, small. */
        public Settings compressed(Compression how, int bytesMin, int level) {
            return new Settings(channelCredentials, callCredentials, tryTimeout, callTimeout, maxMessageBytes, how,
                    bytesMin, level);
        }
    }

    private final List<String> nameServers;
    private final Settings settings;
    private final String id;
    private final Map<String, ManagedChannel> channels = new ConcurrentHashMap<>();
    private final Map<String, CachedRoute> routes = new ConcurrentHashMap<>();
    private volatile boolean closed;

    /** A client of the cluster that these name servers, "host:port", know. */
    public Client(List<String> nameServers) {
        this(nameServers, Settings.defaults());
    }

    /** The same with other settings. It connects when it is first used. */
    public Client(List<String> nameServers, Settings settings) {
        if (nameServers.isEmpty()) {
            throw new IllegalArgumentException("at least one name server is needed");
        }
        for (String address : nameServers) {
            if (!ADDRESS.matcher(address).matches()
                    || Integer.parseInt(address.substring(address.lastIndexOf(':') + 1)) > 65535) {
                throw new IllegalArgumentException("name server \"" + address + "\" is no address host:port");
            }
        }
        this.nameServers = List.copyOf(nameServers);
        this.settings = settings;
        id = hostName() + "@" + ManagementFactory.getRuntimeMXBean().getPid() + "@" + UUID.randomUUID();
    }

    /** The client's id, unique among those that live. */
    public String id() {
        return id;
    }

    /** The client's settings. */
    public Settings settings() {
        return settings;
    }

    /** Ends all connections, and with them every call in flight. */
    @Override
    public void close() {
        closed = true;
        channels.values().forEach(ManagedChannel::shutdownNow);
    }

    /** The channel to a process of the cluster, for calls of generated stubs that are not wrapped here. */
    public ManagedChannel channel(String address) {
        if (closed) {
            throw ArianeException.of(Status.Code.FAILED_PRECONDITION, "", "the client is closed");
        }
        return channels.computeIfAbsent(address, each -> Grpc
                .newChannelBuilder(each, settings.channelCredentials())
                .userAgent("ariane-java/" + VERSION)
                .maxInboundMessageSize(settings.maxMessageBytes())
                .keepAliveTime(1, TimeUnit.MINUTES)
                // Repeats are ours: only here it is known which are safe.
                .disableRetry()
                .build());
    }

    /** A stub for calls that take any time. */
    <S extends AbstractStub<S>> S stub(Function<io.grpc.Channel, S> kind, String address) {
        S stub = kind.apply(channel(address));
        return settings.callCredentials() == null ? stub : stub.withCallCredentials(settings.callCredentials());
    }

    /** A stub for one try of a call. */
    <S extends AbstractStub<S>> S oneTry(Function<io.grpc.Channel, S> kind, String address, Deadline deadline) {
        long nanos = Math.min(settings.tryTimeout().toNanos(), deadline.left().toNanos());
        return stub(kind, address).withDeadlineAfter(nanos, TimeUnit.NANOSECONDS);
    }

    Deadline deadline() {
        return Deadline.in(settings.callTimeout());
    }

    /** Repeats what is safe to repeat, until it succeeds or the time is over. */
    static <A> A repeat(Deadline deadline, Function<Integer, A> once) {
        for (int repeats = 0;; repeats++) {
            try {
                return once.apply(repeats);
            } catch (RuntimeException error) {
                ArianeException failure = ArianeException.of(error, "");
                boolean may = failure.isRetriable() || failure.isUnconfirmed() || failure.isNotPrimary();
                if (!may || !deadline.pause(repeats, failure.retryAfter())) {
                    throw failure;
                }
            }
        }
    }

    /** Where a topic's queues are: at most 30 s old, and asked for anew on routing errors. */
    public Route route(String topic) {
        return route(topic, deadline());
    }

    Route route(String topic, Deadline deadline) {
        CachedRoute known = routes.get(topic);
        if (known != null && known.expiresNanos - System.nanoTime() > 0) {
            return known.route;
        }
        try {
            GetRouteRequest request = GetRouteRequest.newBuilder().setTopic(topic).build();
            Route route = askNameServer(deadline, stub -> stub.getRoute(request).getRoute());
            routes.put(topic, new CachedRoute(route, System.nanoTime() + ROUTE_LIFE.toNanos()));
            return route;
        } catch (ArianeException failure) {
            if (known != null && failure.isRetriable()) {
                return known.route; // The last one that was good.
            }
            throw failure;
        }
    }

    void forgetRoute(String topic) {
        routes.computeIfPresent(topic, (name, known) -> new CachedRoute(known.route, System.nanoTime()));
    }

    String brokerAddress(String topic, String brokerName, Deadline deadline) {
        for (BrokerRoute broker : route(topic, deadline).getBrokersList()) {
            if (broker.getBrokerName().equals(brokerName) && broker.containsAddresses(0)) {
                return broker.getAddressesOrThrow(0);
            }
        }
        throw ArianeException.of(Status.Code.UNAVAILABLE, "ROUTE_NOT_FOUND",
                "no primary of broker " + brokerName + " is known for topic " + topic);
    }

    /** Makes a call that is safe to repeat at the primary of a broker, whoever that is by then. */
    <A> A onPrimary(String topic, String brokerName, Deadline deadline, Function<String, A> call) {
        return repeat(deadline, repeats -> {
            String address = "";
            try {
                address = brokerAddress(topic, brokerName, deadline);
                return call.apply(address);
            } catch (RuntimeException error) {
                forgetRoute(topic);
                throw ArianeException.of(error, address);
            }
        });
    }

    /** Asks one name server after the other, from a random one on, until one answers or the time is over. */
    <A> A askNameServer(Deadline deadline, Function<RouteServiceBlockingStub, A> ask) {
        int begin = ThreadLocalRandom.current().nextInt(nameServers.size());
        return repeat(deadline, repeats -> {
            ArianeException last = null;
            for (int place = 0; place < nameServers.size(); place++) {
                String address = nameServers.get((begin + place) % nameServers.size());
                try {
                    return ask.apply(oneTry(RouteServiceGrpc::newBlockingStub, address, deadline));
                } catch (RuntimeException error) {
                    last = ArianeException.of(error, address).withOutcome(false); // To ask changes nothing.
                    if (!last.isRetriable()) {
                        throw last;
                    }
                }
            }
            throw last;
        });
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unnamed) {
            return "unknown";
        }
    }
}
