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
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import java.lang.System.Logger.Level;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Supplier;
import mq.ariane.client.NameServers.Question;
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

    private static final System.Logger LOG = System.getLogger(Client.class.getName());

    /** A channel, and the same for calls, which logs in. */
    private record Line(ManagedChannel channel, Channel forCalls) {}

    final NameServers nameServers;
    private final ClientSettings settings;
    private final String id;
    private final Security security;
    private final Map<Peer, Line> lines = new ConcurrentHashMap<>();
    /** The cluster of each broker, as routes name it. */
    private final Map<String, String> clusters = new ConcurrentHashMap<>();
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
        this.nameServers = new NameServers(this, nameServers);
        this.settings = settings;
        if (settings.credentials != null) {
            Login.Key.read(settings.credentials); // To say at once what is wrong with the file.
        }
        security = new Security(settings.tls);
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
        boolean isKnown = nameServers.isFresh(new Question(topic, "")) && nameServers.isFresh(new Question(topic, group));
        return on(isKnown ? Runnable::run : Context.currentContextExecutor(few), task);
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
        return topicRoute(topic, deadline).route();
    }

    TopicRoute topicRoute(String topic, Deadline deadline) {
        GetRouteRequest request = GetRouteRequest.newBuilder().setTopic(topic).build();
        Question asked = new Question(topic, "");
        return nameServers.ask(asked, deadline, stub -> {
            try {
                Route route = stub.getRoute(request).getRoute();
                route.getBrokersList().forEach(each -> clusters.put(each.getBrokerName(), each.getClusterName()));
                return TopicRoute.of(route);
            } catch (StatusRuntimeException refused) {
                ArianeException denial = ArianeException.of(refused, "");
                if (denial.isTopicUnknown()) {
                    nameServers.<TopicRoute>change(asked, known -> TopicRoute.of(followed(known.route(), stub)).denied(denial));
                }
                throw refused;
            }
        });
    }

    /**
     * The known route of a topic, its primaries where they are now, which say what became of it: name servers have no
     * route of a topic that was deleted, and a primary that has stopped or stands still names no successor.
     */
    private static Route followed(Route known, RouteServiceBlockingStub stub) {
        Route.Builder route = known.toBuilder();
        Map<String, String> present = new HashMap<>();
        try {
            known.getBrokersList().stream().map(BrokerRoute::getClusterName).distinct()
                    .flatMap(cluster -> NameServers.primaries(stub, cluster).stream())
                    .forEach(each -> present.put(each.getClusterName() + "/" + each.getBrokerName(), each.getAddress()));
        } catch (StatusRuntimeException unknown) {
            LOG.log(Level.DEBUG, "where the brokers of topic {0} are now is not known: {1}", known.getTopic(), unknown);
        }
        for (BrokerRoute.Builder broker : route.getBrokersBuilderList()) {
            String now = present.get(broker.getClusterName() + "/" + broker.getBrokerName());
            if (now != null && broker.containsAddresses(0)) { // Without a primary nobody is asked for the topic.
                broker.putAddresses(0, now);
            }
        }
        return route.build();
    }

    /** Which queue the messages of a group go to, by the same terms. */
    MessageQueue groupQueue(String topic, String group, Deadline deadline) {
        var request = GetMessageGroupQueueRequest.newBuilder().setTopic(topic).setMessageGroup(group).build();
        return nameServers.ask(new Question(topic, group), deadline, stub -> stub.getMessageGroupQueue(request).getQueue());
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
        throw failure != null ? failure : ArianeException.retriable(Status.Code.UNAVAILABLE, "ROUTE_NOT_FOUND",
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
                topics.forEach(nameServers::forget);
            }
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
