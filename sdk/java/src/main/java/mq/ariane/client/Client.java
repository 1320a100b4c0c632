package mq.ariane.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
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
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.Supplier;
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

    /** One to a name server: where a topic is, or a message group of it. */
    record Question(String topic, String group) {}

    private record Answer(Object said, long untilNanos) {
        Answer(Object said, Duration life) {
            this(said, System.nanoTime() + life.toNanos());
        }
    }

    /** A channel, and the same for calls, which logs in. */
    private record Line(ManagedChannel channel, Channel forCalls) {}

    private final Sources nameServers;
    private final ClientSettings settings;
    private final String id;
    private final Security security;
    private final Map<Peer, Line> lines = new ConcurrentHashMap<>();
    private final Map<Question, Answer> known = new ConcurrentHashMap<>();
    /** The cluster of each broker, as routes name it. */
    private final Map<String, String> clusters = new ConcurrentHashMap<>();
    /** Questions on their way. */
    private final Map<Question, CompletableFuture<Object>> asking = new ConcurrentHashMap<>();
    private final AtomicInteger nameServer;
    private final ExecutorService threads = Executors.newCachedThreadPool(Client::daemon);
    /** For those that would wait for the same answers, in any number. */
    private final ExecutorService few = Executors.newFixedThreadPool(8, Client::daemon);
    /** Replies to requests of any of its producers. */
    final ReplyInbox replies = new ReplyInbox(this);
    private volatile boolean closed;

    /** A client of the cluster that the name servers of {@code ARIANE_NAME_SERVERS} know, which commas separate. */
    public Client() {
        this(Sources.named(System.getenv().getOrDefault("ARIANE_NAME_SERVERS", "")));
    }

    /** A client of the cluster that these name servers, "host:port", know. */
    public Client(List<String> nameServers) {
        this(nameServers, ClientSettings.defaults());
    }

    /** The same with other settings. It connects when it is first used. */
    public Client(List<String> nameServers, ClientSettings settings) {
        if (nameServers.isEmpty()) {
            throw new IllegalArgumentException("at least one name server is needed, as in 127.0.0.1:9876: pass it, or"
                    + " set ARIANE_NAME_SERVERS");
        }
        for (String address : nameServers) {
            if (!Sources.isSource(address) && !Sources.isAddress(address)) {
                throw new IllegalArgumentException(
                        "name server \"" + address + "\": host:port, dns:host:port, file:path or a URL is expected");
            }
        }
        this.nameServers = new Sources(nameServers, this::shared);
        this.settings = settings;
        if (settings.credentials != null) {
            Login.Key.read(settings.credentials); // To say at once what is wrong with the file.
        }
        security = new Security(settings.tls);
        nameServer = new AtomicInteger(ThreadLocalRandom.current().nextInt(nameServers.size()));
        id = hostName() + "@" + ManagementFactory.getRuntimeMXBean().getPid() + "@" + UUID.randomUUID();
    }

    /** The client's id, unique among those that live. */
    public String id() {
        return id;
    }

    ClientSettings settings() {
        return settings;
    }

    /** Ends all connections, and with them every call in flight. */
    @Override
    public void close() {
        closed = true;
        replies.close();
        threads.shutdown();
        few.shutdown();
        security.close();
        lines.values().forEach(line -> line.channel().shutdownNow());
    }

    /** The channel to a process of the cluster, for calls of generated stubs that are not wrapped here. */
    public Channel channel(String address) {
        return channel(Peer.any(address));
    }

    private Channel channel(Peer peer) {
        if (closed) {
            throw closedException();
        }
        Line line = lines.computeIfAbsent(peer, this::open);
        ManagedChannel channel = line.channel();
        if (closed) {
            channel.shutdownNow(); // It was closed meanwhile.
        }
        // Whoever comes back is found at once: gRPC itself would wait for up to two minutes.
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
            channel.resetConnectBackoff();
        }
        return line.forCalls();
    }

    private Line open(Peer peer) {
        if (settings.logsIn() && settings.tls.ca() == null && !peer.isLoopback()) {
            throw ArianeException.of(Status.Code.FAILED_PRECONDITION, "", "credentials are not sent in plain text, and "
                    + peer.address() + " is another machine: set tls, or ARIANE_TLS_CA");
        }
        ManagedChannel channel = Grpc.newChannelBuilder(peer.address(), security.credentials(peer))
                .userAgent(settings.userAgent(id))
                .maxInboundMessageSize(settings.maxMessageBytes)
                .keepAliveTime(1, TimeUnit.MINUTES)
                // Repeats are ours: only here it is known which are safe.
                .disableRetry()
                // A proxy of the process is for pages of the internet, and cannot reach the cluster.
                .proxyDetector(target -> null)
                .build();
        Channel meaning = ClientInterceptors.intercept(channel, peer.meaning(clusters::get));
        if (!settings.logsIn()) {
            return new Line(channel, meaning);
        }
        Login login = new Login(this, channel);
        return new Line(channel, ClientInterceptors.intercept(meaning, new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                return next.newCall(method, options.withCallCredentials(login));
            }
        }));
    }

    static ArianeException closedException() {
        return ArianeException.of(Status.Code.FAILED_PRECONDITION, "CLIENT_NOT_RUNNING", "the client is closed")
                .withOutcome(false);
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "ariane-client");
        thread.setDaemon(true);
        return thread;
    }

    /** Has a thread of the client do something that blocks. */
    <A> CompletableFuture<A> aside(Supplier<A> task) {
        return on(Context.currentContextExecutor(threads), task);
    }

    /** The same for many: it does not end with the call of whoever needs it first. */
    <A> CompletableFuture<A> shared(Supplier<A> task) {
        return on(threads, task);
    }

    /** Does what needs routes: at once where they are known, else on one of few threads. */
    <A> CompletableFuture<A> withRoutes(String topic, String group, Supplier<A> task) {
        boolean isKnown = isFresh(new Question(topic, "")) && isFresh(new Question(topic, group));
        return on(isKnown ? Runnable::run : Context.currentContextExecutor(few), task);
    }

    private boolean isFresh(Question asked) {
        Answer answer = known.get(asked);
        return answer != null && answer.untilNanos - System.nanoTime() > 0;
    }

    private static <A> CompletableFuture<A> on(Executor executor, Supplier<A> task) {
        try {
            return CompletableFuture.supplyAsync(task, executor);
        } catch (RejectedExecutionException closing) {
            throw closedException();
        }
    }

    /** A stub for calls that take any time. */
    <S extends AbstractStub<S>> S stub(Function<Channel, S> kind, Peer peer) {
        return kind.apply(channel(peer));
    }

    /** A stub for one try of a call. */
    <S extends AbstractStub<S>> S oneTry(Function<Channel, S> kind, Peer peer, Deadline deadline) {
        long nanos = Math.min(settings.tryTimeout.toNanos(), deadline.left().toNanos());
        return stub(kind, peer).withDeadlineAfter(nanos, TimeUnit.NANOSECONDS);
    }

    Deadline deadline() {
        return Deadline.in(settings.callTimeout);
    }

    /** Where a topic's queues are: at most 30 s old, and asked for anew on routing errors. */
    public Route route(String topic) {
        return route(topic, deadline());
    }

    Route route(String topic, Deadline deadline) {
        GetRouteRequest request = GetRouteRequest.newBuilder().setTopic(topic).build();
        return askNameServer(new Question(topic, ""), deadline, stub -> {
            Route route = stub.getRoute(request).getRoute();
            route.getBrokersList().forEach(each -> clusters.put(each.getBrokerName(), each.getClusterName()));
            return route;
        });
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

    /** Where a broker is that has one of the topics. */
    String brokerAddress(String brokerName, List<String> topics, Deadline deadline) {
        ArianeException failure = null;
        for (String topic : topics) {
            try {
                for (BrokerRoute broker : route(topic, deadline).getBrokersList()) {
                    if (broker.getBrokerName().equals(brokerName) && broker.containsAddresses(0)) {
                        return broker.getAddressesOrThrow(0);
                    }
                }
            } catch (ArianeException unknown) {
                failure = failure == null ? unknown : failure; // Another topic may tell.
            }
        }
        throw failure != null ? failure : ArianeException.away(
                "no primary of broker " + brokerName + " is known for topic " + String.join(", ", topics));
    }

    /** Makes a call that is safe to repeat at the primary of a broker, whoever that is by then. */
    <A> A onPrimary(String brokerName, List<String> topics, Deadline deadline, Function<Peer, A> call) {
        for (int repeats = 0;; repeats++) {
            String address = "";
            try {
                address = brokerAddress(brokerName, topics, deadline);
                return call.apply(Peer.broker(address, brokerName));
            } catch (RuntimeException error) {
                ArianeException failure = ArianeException.of(error, address);
                boolean may = failure.isRetriable() || failure.isUnconfirmed();
                if (!may || !deadline.pause(repeats, failure.retryAfter())) {
                    throw failure;
                }
                topics.forEach(this::forgetRoute);
            }
        }
    }

    /**
     * Asks one name server after the other until one answers or the time is over: asking is always safe to repeat. What
     * was known before holds where the next one that is asked does not answer.
     */
    @SuppressWarnings("unchecked") // A question has answers of one type.
    <A> A askNameServer(Question asked, Deadline deadline, Function<RouteServiceBlockingStub, A> ask) {
        for (int tries = 0;; tries++) {
            Answer before = known.get(asked);
            if (before != null && before.untilNanos - System.nanoTime() > 0) {
                return (A) before.said;
            }
            int place = nameServer.get();
            int count = 1;
            String address = "";
            try {
                List<String> servers = nameServers.addresses(deadline);
                count = servers.size();
                address = servers.get(Math.floorMod(place, count));
                return askOnce(asked, address, deadline, ask);
            } catch (RuntimeException error) {
                // It may be that of many. To ask changes nothing.
                ArianeException failure = ArianeException.of(error, address).copy().withOutcome(false);
                // A broker that changes its primary may be in no route for a moment: brokers say what is gone.
                boolean gone = failure.reason().equals("ROUTE_NOT_FOUND") && before != null;
                if (!failure.isRetriable() && !gone) {
                    throw failure.ofNameServer(address);
                }
                nameServer.compareAndSet(place, place + 1);
                nameServers.doubt();
                if (before != null) {
                    known.put(asked, new Answer(before.said, ANSWER_REST));
                    return (A) before.said;
                }
                if ((tries + 1) % count == 0 && !deadline.pause(tries / count, failure.retryAfter())) {
                    throw failure.ofNameServer(address);
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
                shared(() -> ask.apply(oneTry(RouteServiceGrpc::newBlockingStub, Peer.nameServer(address),
                        Deadline.in(settings.tryTimeout))))
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

    static <A> A answerOf(CompletableFuture<A> asking, String address, Deadline deadline) {
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
