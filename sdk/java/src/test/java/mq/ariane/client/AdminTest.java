package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import mq.ariane.admin.v1.BrokerOutcome;
import mq.ariane.admin.v1.ClusterTopic;
import mq.ariane.admin.v1.CreateGroupRequest;
import mq.ariane.admin.v1.CreateGroupResponse;
import mq.ariane.admin.v1.CreateTopicRequest;
import mq.ariane.admin.v1.CreateTopicResponse;
import mq.ariane.admin.v1.GroupServiceGrpc;
import mq.ariane.admin.v1.ListTopicsRequest;
import mq.ariane.admin.v1.ListTopicsResponse;
import mq.ariane.admin.v1.SilentBroker;
import mq.ariane.admin.v1.TopicServiceGrpc;
import mq.ariane.broker.v1.ConsumerGroup;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class AdminTest {
    private final AtomicInteger failures = new AtomicInteger();
    private final List<CreateTopicRequest> created = new CopyOnWriteArrayList<>();
    private final List<ConsumerGroup> groups = new CopyOnWriteArrayList<>();
    private final List<String> claimed = new CopyOnWriteArrayList<>();
    private List<BrokerOutcome> outcomes = List.of();
    private Server server;
    private Client client;
    private Admin admin;

    private final class Topics extends TopicServiceGrpc.TopicServiceImplBase {
        @Override
        public void createTopic(CreateTopicRequest request, StreamObserver<CreateTopicResponse> caller) {
            created.add(request);
            if (away(caller)) {
                return;
            }
            caller.onNext(CreateTopicResponse.newBuilder().addAllOutcomes(outcomes).build());
            caller.onCompleted();
        }

        @Override
        public void listTopics(ListTopicsRequest request, StreamObserver<ListTopicsResponse> caller) {
            if (away(caller)) {
                return;
            }
            var page = ListTopicsResponse.newBuilder();
            if (request.getPageToken().isEmpty()) {
                page.addTopics(ClusterTopic.newBuilder().setTopic("one")).setNextPageToken("two");
            } else {
                page.addTopics(ClusterTopic.newBuilder().setTopic(request.getPageToken()))
                        .addSilentBrokers(SilentBroker.newBuilder().setBrokerName("broker-b"));
            }
            caller.onNext(page.build());
            caller.onCompleted();
        }

        private boolean away(StreamObserver<?> caller) {
            boolean away = failures.getAndDecrement() > 0;
            if (away) {
                caller.onError(Status.UNAVAILABLE.asRuntimeException());
            }
            return away;
        }
    }

    private final class Groups extends GroupServiceGrpc.GroupServiceImplBase {
        @Override
        public void createGroup(CreateGroupRequest request, StreamObserver<CreateGroupResponse> caller) {
            groups.add(request.getGroup());
            caller.onNext(CreateGroupResponse.getDefaultInstance());
            caller.onCompleted();
        }
    }

    /** Notes in whose name calls are made. */
    private final class Claims implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata said,
                ServerCallHandler<Q, A> next) {
            claimed.add(String.valueOf(said.get(Metadata.Key.of("x-ariane-claimed-user",
                    Metadata.ASCII_STRING_MARSHALLER))));
            return next.startCall(call, said);
        }
    }

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(new Topics())
                .addService(new Groups()).intercept(new Claims()).build().start();
        client = new Client(List.of("127.0.0.1:1"));
        admin = new Admin(client, "127.0.0.1:" + server.getPort());
    }

    @AfterEach
    void close() {
        client.close();
        server.shutdownNow();
    }

    @Test
    void listsAreWholeAndSayWhoIsSilent() {
        failures.set(2); // Who only asks is patient.
        Admin.Listing<Admin.Topic> topics = admin.topics();
        assertEquals(List.of("one", "two"), topics.items().stream().map(Admin.Topic::name).toList());
        assertEquals(Set.of("broker-b"), topics.silentBrokers());
    }

    @Test
    void aChangeIsAskedForOnceInTheNameOfSomebody() {
        failures.set(1);
        ArianeException error = assertThrows(ArianeException.class,
                () -> admin.createTopic("orders", TopicSettings.builder().queues(8).attribute("a", "b").build()));
        assertTrue(error.isRetriable() && error.isOutcomeUnknown());
        assertEquals(1, created.size());
        assertEquals(8, created.get(0).getTopic().getReadQueueCount());
        assertEquals("b", created.get(0).getTopic().getAttributesOrThrow("a"));
        assertTrue(claimed.get(0).matches(".+@.+"), claimed.toString());
    }

    @Test
    void whatFailsOnSomeBrokersIsNoSuccess() {
        outcomes = List.of(BrokerOutcome.newBuilder().setBrokerName("broker-a").build(), failed("broker-b"),
                failed("broker-c"));
        ArianeException error = assertThrows(ArianeException.class,
                () -> admin.createTopic("orders", TopicSettings.builder().build()));
        assertEquals("STORE_FULL", error.reason());
        assertTrue(error.isOutcomeUnknown(), "broker-a has it");
        assertTrue(error.getMessage().startsWith("broker-b"), error.getMessage());
        assertTrue(error.getSuppressed()[0].getMessage().startsWith("broker-c"));
    }

    private static BrokerOutcome failed(String name) {
        var info = ErrorInfo.newBuilder().setDomain("ariane.mq").setReason("STORE_FULL").build();
        return BrokerOutcome.newBuilder().setBrokerName(name).setError(com.google.rpc.Status.newBuilder()
                .setCode(Status.Code.RESOURCE_EXHAUSTED.value()).addDetails(Any.pack(info))).build();
    }

    @Test
    void aGroupThatIsMadeHasTheDefaultsOfItsBroker() {
        admin.createGroup("waiters", GroupSettings.builder().build());
        admin.createGroup("cooks", GroupSettings.builder().enabled(false).attempts(0).orderedAttempts(3)
                .retryDelays(List.of(Duration.ofSeconds(2))).build());
        ConsumerGroup usual = groups.get(0);
        assertTrue(!usual.hasConsumeEnabled() && !usual.hasBroadcastEnabled());
        assertTrue(!usual.hasAttemptsMax() && !usual.hasOrderedAttemptsMax());
        ConsumerGroup own = groups.get(1);
        assertTrue(own.hasConsumeEnabled() && !own.getConsumeEnabled() && !own.hasBroadcastEnabled() && own.hasAttemptsMax());
        assertEquals(List.of(0, 3), List.of(own.getAttemptsMax(), own.getOrderedAttemptsMax()));
        assertEquals(2, own.getRetryPolicy().getTable().getDelays(0).getSeconds());
    }

    @Test
    void anAddressIsOne() {
        assertThrows(IllegalArgumentException.class, () -> new Admin(client, "admin"));
    }
}
