package mq.ariane.client;

import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.ConnectivityState;
import io.grpc.Context;
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
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import mq.ariane.common.v1.Compression;
import mq.ariane.common.v1.MessageQueue;
import mq.ariane.namesrv.v1.BrokerRoute;
import mq.ariane.namesrv.v1.GetMessageGroupQueueRequest;
import mq.ariane.namesrv.v1.GetRouteRequest;
import mq.ariane.namesrv.v1.Route;
import mq.ariane.namesrv.v1.RouteServiceGrpc;
import mq.ariane.namesrv.v1.RouteServiceGrpc.RouteServiceBlockingStub;

/** One program's view of a cluster. Close it at the end. */
public final class Client implements AutoCloseable {
    /** The version of this library. */
    public static final String VERSION = "0.1.0";

    private static final Duration ANSWER_LIFE = Duration.ofSeconds(30);

    /** How long name servers that did not answer are left alone. */
    private static final Duration ANSWER_REST = Duration.ofSeconds(5);

    private static final int ANSWERS_MAX = 4096;

    private static final Pattern ADDRESS = Pattern.compile("(\\[[^\\]\\s]+\\]|[^\\s:]+):[1-9]\\d{0,4}");

    /** One to a name server: where a topic is, or a message group of it. */
    private record Question(String topic, String group) {}

    private record Answer(Object said, long untilNanos) {
        Answer(Object said, Duration life) {
            this(said, System.nanoTime() + life.toNanos());
        }
    }

    /**
     * How calls are made.
     *
     * @param channelCredentials secure connections
     * @param callCredentials go along with each call; null where none do
     * @param tryTimeout bounds one try of a call
     * @param callTimeout bounds a call with all its repeats, unless the call says otherwise
     * @param maxMessageBytes bounds what one answer may have
     * @param compression how bodies of 4 KiB and more are compressed that become smaller by it
     */
    public record Settings(ChannelCredentials channelCredentials, CallCredentials callCredentials, Duration tryTimeout,
            Duration callTimeout, int maxMessageBytes, Compression compression) {
        /** Checks what has bounds. */
        public Settings {
            if (tryTimeout.isNegative() || callTimeout.isNegative()) {
                throw new IllegalArgumentException("a timeout is negative");
            }
        }

        /** Settings that are good for a cluster without TLS; bodies are not compressed. */
        public static Settings defaults() {
            return new Settings(InsecureChannelCredentials.create(), null, Duration.ofSeconds(3), Duration.ofSeconds(30),
                    64 << 20, Compression.COMPRESSION_UNSPECIFIED);
        }

        /** The same with TLS and credentials. */
        public Settings secured(ChannelCredentials channel, CallCredentials call) {
            return new Settings(channel, call, tryTimeout, callTimeout, maxMessageBytes, compression);
        }

        /** The same with other time limits. */
        public Settings timed(Duration ofTry, Duration ofCall) {
            return new Settings(channelCredentials, callCredentials, ofTry, ofCall, maxMessageBytes, compression);
        }

        /** The same with bodies of 4 KiB and more compressed. Every client decompresses what it receives. */
        public Settings compressed(Compression how) {
            return new Settings(channelCredentials, callCredentials, tryTimeout, callTimeout, maxMessageBytes, how);
        }
    }

    private final List<String> nameServers;
    private final Settings settings;
    private final String id;
    private final Map<String, ManagedChannel> channels = new ConcurrentHashMap<>();
    private final Map<Question, Answer> known = new ConcurrentHashMap<>();
    /** Questions on their way. */
    private final Map<Question, CompletableFuture<Object>> asking = new ConcurrentHashMap<>();
    private final AtomicInteger nameServer;
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "ariane-client");
        thread.setDaemon(true);
        return thread;
    });
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
        nameServer = new AtomicInteger(ThreadLocalRandom.current().nextInt(nameServers.size()));
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
        threads.shutdown();
        channels.values().forEach(ManagedChannel::shutdownNow);
    }

    /** The channel to a process of the cluster, for calls of generated stubs that are not wrapped here. */
    public ManagedChannel channel(String address) {
        if (closed) {
            throw closedException();
        }
        ManagedChannel channel = channels.computeIfAbsent(address, each -> Grpc
                .newChannelBuilder(each, settings.channelCredentials())
                .userAgent("ariane-java/" + VERSION)
                .maxInboundMessageSize(settings.maxMessageBytes())
                .keepAliveTime(1, TimeUnit.MINUTES)
                // Repeats are ours: only here it is known which are safe.
                .disableRetry()
                // A proxy of the process is for pages of the internet, and cannot reach the cluster.
                .proxyDetector(target -> null)
                .build());
        if (closed) {
            channel.shutdownNow(); // It was closed meanwhile.
        }
        // Whoever comes back is found at once: gRPC itself would wait for up to two minutes.
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            channel.resetConnectBackoff();
        }
        return channel;
    }

    private static ArianeException closedException() {
        return ArianeException.of(Status.Code.FAILED_PRECONDITION, "", "the client is closed");
    }

    /** Has a thread of the client do something that blocks. */
    <A> CompletableFuture<A> aside(Supplier<A> task) {
        try {
            return CompletableFuture.supplyAsync(task, Context.currentContextExecutor(threads));
        } catch (RejectedExecutionException closing) {
            throw closedException();
        }
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

    /** Where a topic's queues are: at most 30 s old, and asked for anew on routing errors. */
    public Route route(String topic) {
        return route(topic, deadline());
    }

    Route route(String topic, Deadline deadline) {
        GetRouteRequest request = GetRouteRequest.newBuilder().setTopic(topic).build();
        return askNameServer(new Question(topic, ""), deadline, stub -> stub.getRoute(request).getRoute());
    }

    /** Which queue the messages of a group go to, by the same terms. */
    MessageQueue groupQueue(String topic, String group, Deadline deadline) {
        var request = GetMessageGroupQueueRequest.newBuilder().setTopic(topic).setMessageGroup(group).build();
        return askNameServer(new Question(topic, group), deadline, stub -> stub.getMessageGroupQueue(request).getQueue());
    }

    /** Has what is known of a topic asked anew. */
    void forgetRoute(String topic) {
        known.replaceAll((asked, answer) -> asked.topic.equals(topic) ? new Answer(answer.said, Duration.ZERO) : answer);
    }

    String brokerAddress(String topic, String brokerName, Deadline deadline) {
        for (BrokerRoute broker : route(topic, deadline).getBrokersList()) {
            if (broker.getBrokerName().equals(brokerName) && broker.containsAddresses(0)) {
                return broker.getAddressesOrThrow(0);
            }
        }
        throw ArianeException.away("no primary of broker " + brokerName + " is known for topic " + topic);
    }

    /** Makes a call that is safe to repeat at the primary of a broker, whoever that is by then. */
    <A> A onPrimary(String topic, String brokerName, Deadline deadline, Function<String, A> call) {
        for (int repeats = 0;; repeats++) {
            String address = "";
            try {
                address = brokerAddress(topic, brokerName, deadline);
                return call.apply(address);
            } catch (RuntimeException error) {
                ArianeException failure = ArianeException.of(error, address);
                boolean may = failure.isRetriable() || failure.isUnconfirmed();
                if (!may || !deadline.pause(repeats, failure.retryAfter())) {
                    throw failure;
                }
                forgetRoute(topic);
            }
        }
    }

    /**
     * Asks one name server after the other until one answers or the time is over: asking is always safe to repeat. What
     * was known before holds where the next one that is asked does not answer.
     */
    @SuppressWarnings("unchecked") // A question has answers of one type.
    private <A> A askNameServer(Question asked, Deadline deadline, Function<RouteServiceBlockingStub, A> ask) {
        for (int tries = 0;; tries++) {
            Answer before = known.get(asked);
            if (before != null && before.untilNanos - System.nanoTime() > 0) {
                return (A) before.said;
            }
            int place = nameServer.get();
            String address = nameServers.get(place);
            try {
                return askOnce(asked, address, deadline, ask);
            } catch (RuntimeException error) {
                // It may be that of many. To ask changes nothing.
                ArianeException failure = ArianeException.of(error, address).copy().withOutcome(false);
                // A broker that changes its primary may be in no route for a moment: brokers say what is gone.
                boolean gone = failure.reason().equals("ROUTE_NOT_FOUND") && before != null;
                if (!failure.isRetriable() && !gone) {
                    throw failure;
                }
                nameServer.compareAndSet(place, (place + 1) % nameServers.size());
                if (before != null) {
                    known.put(asked, new Answer(before.said, ANSWER_REST));
                    return (A) before.said;
                }
                if ((tries + 1) % nameServers.size() == 0
                        && !deadline.pause(tries / nameServers.size(), failure.retryAfter())) {
                    throw failure;
                }
            }
        }
    }

    /** Asks one name server, once for all that want to know the same at a time: it ends with none of them. */
    @SuppressWarnings("unchecked") // A question has answers of one type.
    private <A> A askOnce(Question asked, String address, Deadline deadline, Function<RouteServiceBlockingStub, A> ask) {
        CompletableFuture<Object> own = new CompletableFuture<>();
        CompletableFuture<Object> before = asking.putIfAbsent(asked, own);
        Answer since = known.get(asked);
        if (before == null && since != null && since.untilNanos - System.nanoTime() > 0) {
            asking.remove(asked); // The one before has answered since this was looked up.
            own.complete(since.said);
        } else if (before == null) {
            try {
                aside(() -> ask.apply(oneTry(RouteServiceGrpc::newBlockingStub, address, Deadline.in(settings.tryTimeout()))))
                        .whenComplete((said, failure) -> answer(asked, own, said, failure));
            } catch (ArianeException closed) {
                answer(asked, own, null, closed);
            }
        }
        return (A) answerOf(before == null ? own : before, address, deadline);
    }

    private void answer(Question asked, CompletableFuture<Object> own, Object said, Throwable failure) {
        if (failure == null) {
            if (known.size() >= ANSWERS_MAX) {
                known.clear();
            }
            known.put(asked, new Answer(said, ANSWER_LIFE));
        }
        asking.remove(asked);
        if (failure == null) {
            own.complete(said);
        } else {
            own.completeExceptionally(failure instanceof CompletionException ? failure.getCause() : failure);
        }
    }

    private static Object answerOf(CompletableFuture<Object> asking, String address, Deadline deadline) {
        try {
            return asking.get(deadline.left().toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException failed) {
            throw ArianeException.of(failed.getCause(), address);
        } catch (TimeoutException late) {
            // Without a reason it is retriable: what was known before holds then.
            throw ArianeException.of(Status.Code.DEADLINE_EXCEEDED, "", address + ": no answer in time");
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw ArianeException.interrupted();
        }
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unnamed) {
            return "unknown";
        }
    }
}
