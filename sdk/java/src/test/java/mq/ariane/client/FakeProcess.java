package mq.ariane.client;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import mq.ariane.broker.v1.ListQueueBoundsRequest;
import mq.ariane.broker.v1.ListQueueBoundsResponse;
import mq.ariane.broker.v1.PullMessagesRequest;
import mq.ariane.broker.v1.PullMessagesResponse;
import mq.ariane.broker.v1.PullPosition;
import mq.ariane.broker.v1.PullServiceGrpc;
import mq.ariane.broker.v1.QueueBounds;
import mq.ariane.broker.v1.QueueMessages;
import mq.ariane.broker.v1.ReceiveRecordsRequest;
import mq.ariane.broker.v1.ReceiveRecordsResponse;
import mq.ariane.broker.v1.ReceiveServiceGrpc;
import mq.ariane.broker.v1.RecordSettlement;
import mq.ariane.broker.v1.SendMessagesRequest;
import mq.ariane.broker.v1.SendMessagesResponse;
import mq.ariane.broker.v1.SendServiceGrpc;
import mq.ariane.broker.v1.SentMessage;
import mq.ariane.broker.v1.SettleRecordsRequest;
import mq.ariane.broker.v1.SettleRecordsResponse;
import mq.ariane.broker.v1.SettledRecords;
import mq.ariane.common.v1.MessageQueue;
import mq.ariane.namesrv.v1.BrokerRoute;
import mq.ariane.namesrv.v1.GetMessageGroupQueueRequest;
import mq.ariane.namesrv.v1.GetMessageGroupQueueResponse;
import mq.ariane.namesrv.v1.GetRouteRequest;
import mq.ariane.namesrv.v1.GetRouteResponse;
import mq.ariane.namesrv.v1.ListBrokersRequest;
import mq.ariane.namesrv.v1.ListBrokersResponse;
import mq.ariane.namesrv.v1.Route;
import mq.ariane.namesrv.v1.RouteServiceGrpc;
import mq.ariane.namesrv.v1.TopicPermission;

/** A name server, a broker, or both, that says what a test wants. */
final class FakeProcess implements AutoCloseable {
    static final String TOPIC = "orders";

    final String name;
    final Map<String, Integer> counts = new ConcurrentHashMap<>();
    final List<SendMessagesRequest> sent = new CopyOnWriteArrayList<>();
    final List<String> settled = Collections.synchronizedList(new ArrayList<>());

    /** Bodies of what was received, by their offsets. */
    final List<String> handed = Collections.synchronizedList(new ArrayList<>());

    /** What failed, each with its cause. */
    final Map<String, String> failed = new ConcurrentHashMap<>();

    /** What was shown to others at once. */
    final List<String> shown = Collections.synchronizedList(new ArrayList<>());

    /** Bodies of what comes with one call, which is UNAVAILABLE where it throws. */
    volatile Callable<List<String>> receive = () -> {
        Thread.sleep(Long.MAX_VALUE);
        return List.of();
    };

    /** What becomes of an answer with messages. */
    volatile UnaryOperator<ReceiveRecordsResponse> spoil = answer -> answer;

    /** What becomes of the results of settlements. */
    volatile UnaryOperator<SettleRecordsResponse> results = answer -> answer;

    /** What a send waits for before it is acknowledged. */
    volatile Callable<?> acknowledge = () -> null;

    /** What comes with one pull, which is UNAVAILABLE where it throws. */
    volatile Callable<List<QueueMessages>> pull = () -> {
        Thread.sleep(Long.MAX_VALUE);
        return List.of();
    };

    /** Where pulls began. */
    final List<PullPosition> pulled = new CopyOnWriteArrayList<>();

    /** The ends of queues; UNAVAILABLE where it throws, but for what gRPC says itself. */
    volatile Callable<List<QueueBounds>> bounds = List::of;

    /** What a route waits for; UNAVAILABLE where it throws, likewise. */
    volatile Callable<?> route = () -> null;

    /** Whether routes have the address of its primary. */
    volatile boolean hasPrimary = true;

    /** What sends are refused with; nothing if it is null. */
    volatile StatusRuntimeException refusal;

    /** Brokers that are listed. */
    volatile List<FakeProcess> present = List.of();

    final String address;
    final List<FakeProcess> brokers;
    private final Server server;

    FakeProcess(String name, FakeProcess... brokers) throws IOException {
        this.name = name;
        this.brokers = new CopyOnWriteArrayList<>(brokers);
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(new Routes())
                .addService(new Sends()).addService(new Receives()).addService(new Pulls()).build().start();
        address = "127.0.0.1:" + server.getPort();
    }

    int count(String what) {
        return counts.merge(what, 1, Integer::sum);
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    private static <A> void answer(StreamObserver<A> caller, Callable<A> made) {
        try {
            caller.onNext(made.call());
            caller.onCompleted();
        } catch (StatusRuntimeException refusal) {
            caller.onError(refusal);
        } catch (Exception error) {
            caller.onError(Status.UNAVAILABLE.withDescription(error.toString()).asRuntimeException());
        }
    }

    private final class Routes extends RouteServiceGrpc.RouteServiceImplBase {
        @Override
        public void getRoute(GetRouteRequest request, StreamObserver<GetRouteResponse> caller) {
            count("route");
            Route.Builder route = Route.newBuilder().setTopic(TOPIC);
            for (FakeProcess broker : brokers) {
                route.addBrokers(BrokerRoute.newBuilder().setBrokerName(broker.name)
                        .putAddresses(broker.hasPrimary ? 0 : 1, broker.address).setWriteQueueCount(1).setReadQueueCount(1).setPermission(TopicPermission.TOPIC_PERMISSION_READ_WRITE));
            }
            answer(caller, () -> {
                FakeProcess.this.route.call();
                return GetRouteResponse.newBuilder().setRoute(route).build();
            });
        }

        @Override
        public void listBrokers(ListBrokersRequest request, StreamObserver<ListBrokersResponse> caller) {
            count("brokers");
            answer(caller, () -> {
                ListBrokersResponse.Builder said = ListBrokersResponse.newBuilder();
                for (FakeProcess broker : present) {
                    said.addBrokersBuilder().getIdentityBuilder().setBrokerName(broker.name).setAddress(broker.address);
                }
                return said.build();
            });
        }

        @Override
        public void getMessageGroupQueue(GetMessageGroupQueueRequest request,
                StreamObserver<GetMessageGroupQueueResponse> caller) {
            count("group");
            FakeProcess first = brokers.get(0);
            answer(caller, () -> GetMessageGroupQueueResponse.newBuilder().setAddress(first.address)
                    .setQueue(MessageQueue.newBuilder().setTopic(TOPIC).setBrokerName(first.name)).build());
        }
    }

    private final class Sends extends SendServiceGrpc.SendServiceImplBase {
        @Override
        public void sendMessages(SendMessagesRequest request, StreamObserver<SendMessagesResponse> caller) {
            if (refusal != null) {
                caller.onError(refusal);
                return;
            }
            if (request.getMessagesList().stream().anyMatch(each -> each.getBody().toStringUtf8().equals("bad"))) {
                caller.onError(Status.INVALID_ARGUMENT.withDescription("no message").asRuntimeException());
                return;
            }
            sent.add(request);
            SendMessagesResponse.Builder said = SendMessagesResponse.newBuilder();
            request.getMessagesList().forEach(
                    each -> said.addMessages(SentMessage.newBuilder().setUniqueId(each.getUniqueId())));
            answer(caller, () -> {
                acknowledge.call();
                return said.build();
            });
        }
    }

    private final class Pulls extends PullServiceGrpc.PullServiceImplBase {
        @Override
        public void listQueueBounds(ListQueueBoundsRequest request, StreamObserver<ListQueueBoundsResponse> caller) {
            answer(caller, () -> ListQueueBoundsResponse.newBuilder().addAllQueues(bounds.call()).build());
        }

        @Override
        public void pullMessages(PullMessagesRequest request, StreamObserver<PullMessagesResponse> caller) {
            pulled.addAll(request.getPositionsList());
            answer(caller, () -> PullMessagesResponse.newBuilder().addAllQueues(pull.call()).build());
        }
    }

    private final class Receives extends ReceiveServiceGrpc.ReceiveServiceImplBase {
        @Override
        public void receiveRecords(ReceiveRecordsRequest request, StreamObserver<ReceiveRecordsResponse> caller) {
            answer(caller, () -> {
                List<byte[]> records = new ArrayList<>();
                for (String body : receive.call()) {
                    synchronized (handed) {
                        records.add(RecordsTest.record(TOPIC, body, handed.size()));
                        handed.add(body);
                    }
                }
                return spoil.apply(ReceiveRecordsResponse.newBuilder().addQueues(RecordsTest.queue(records, 0)).build());
            });
        }

        @Override
        public void settleRecords(SettleRecordsRequest request, StreamObserver<SettleRecordsResponse> caller) {
            SettleRecordsResponse.Builder said = SettleRecordsResponse.newBuilder();
            for (RecordSettlement each : request.getSettlementsList()) {
                ByteBuffer ranges = each.getRanges().asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
                while (ranges.hasRemaining()) {
                    int first = (int) ranges.getLong();
                    List<String> bodies = List.copyOf(handed.subList(first, first + (int) ranges.getLong()));
                    if (each.hasNack()) {
                        bodies.forEach(body -> failed.put(body, each.getNack().getCause()));
                    } else if (!each.hasInvisibleDuration()) {
                        settled.addAll(bodies);
                    } else if (each.getInvisibleDuration().getSeconds() == 0) {
                        shown.addAll(bodies);
                    }
                }
                said.addResults(SettledRecords.getDefaultInstance());
            }
            answer(caller, () -> results.apply(said.build()));
        }
    }
}
