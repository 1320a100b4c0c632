package mq.ariane.client;

import com.google.rpc.Status;
import io.grpc.Context;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import mq.ariane.broker.v1.AttachRequest;
import mq.ariane.broker.v1.AttachResponse;
import mq.ariane.broker.v1.ClientHeartbeat;
import mq.ariane.broker.v1.ClientHello;
import mq.ariane.broker.v1.ClientServiceGrpc;
import mq.ariane.broker.v1.SendMessagesRequest;
import mq.ariane.broker.v1.SendServiceGrpc;
import mq.ariane.broker.v1.UpdateTransactionsRequest;
import mq.ariane.broker.v1.UpdateTransactionsResponse;
import mq.ariane.broker.v1.TransactionAnswer;
import mq.ariane.broker.v1.TransactionCheck;
import mq.ariane.broker.v1.TransactionServiceGrpc;
import mq.ariane.broker.v1.TransactionToEnd;
import mq.ariane.namesrv.v1.BrokerRoute;

/** Sends messages that become visible when their transactions commit. Close it at the end. */
public final class TransactionProducer implements AutoCloseable {
    private static final long LOOK_S = 30;
    private static final long HEARTBEAT_S = 10;

    private final Client client;
    private final Producer producer;
    private final String id;
    private final String group;
    private final Set<String> topics;
    private final Function<Message, Outcome> checker;
    private final Map<String, Attachment> attached = new ConcurrentHashMap<>();
    private final Context.CancellableContext life = Context.ROOT.withCancellation();
    private final ScheduledExecutorService tasks = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "ariane-transactions");
        thread.setDaemon(true);
        return thread;
    });

    /**
     * A producer of a group, which the cluster asks by checker how the transaction of a message ended when its end never
     * came: the brokers of these topics from the beginning, those of others once a message was sent there. The
     * checker may be asked in any process of the group, on a thread of the client, for several messages at a time.
     */
    public TransactionProducer(Client client, String group, List<String> topics, Function<Message, Outcome> checker) {
        this.client = client;
        this.group = group;
        this.topics = ConcurrentHashMap.newKeySet();
        this.topics.addAll(topics);
        this.checker = checker;
        producer = new Producer(client);
        id = client.id() + "@" + UUID.randomUUID();
        topics.forEach(client::route);
        look();
        tasks.scheduleWithFixedDelay(this::look, LOOK_S, LOOK_S, TimeUnit.SECONDS);
        tasks.scheduleWithFixedDelay(() -> attached.values().forEach(Attachment::beat), HEARTBEAT_S, HEARTBEAT_S,
                TimeUnit.SECONDS);
    }

    /** Ends the listening; others of the group are asked from then on. */
    @Override
    public void close() {
        tasks.shutdownNow();
        life.cancel(null);
    }

    /** Stores a message that nobody sees until the transaction commits. */
    public Transaction begin(Message message) {
        if (life.isCancelled()) {
            throw new IllegalStateException("the transaction producer is closed");
        }
        if (message.deliverAt() != null) {
            throw new IllegalArgumentException("the message of a transaction cannot be delayed");
        }
        Deadline deadline = client.deadline();
        Producer.Place place = producer.choose(message.topic(), message.group(), deadline);
        if (topics.add(message.topic())) {
            tasks.execute(this::look);
        }
        var half = SendMessagesRequest.newBuilder().setTopic(message.topic()).setQueueId(place.queue().queueId())
                .setHalfGroup(group).addMessages(message.wire(true, client.settings().compression)).build();
        // To repeat is harmless, also when nobody knows what became of it: its id makes it one message.
        client.onPrimary(place.queue().brokerName(), List.of(message.topic()), deadline,
                peer -> client.oneTry(SendServiceGrpc::newBlockingStub, peer, deadline).sendMessages(half));
        return new Transaction(place.queue(), message);
    }

    /** One message without an outcome. */
    public final class Transaction {
        private final Producer.Queue queue;
        private final Message message;

        private Transaction(Producer.Queue queue, Message message) {
            this.queue = queue;
            this.message = message;
        }

        /** The transaction's id. */
        public String id() {
            return message.id();
        }

        /** Makes the message visible. Again is harmless. */
        public void commit() {
            end(Outcome.COMMIT);
        }

        /** Lets the message never become visible. Again is harmless. */
        public void rollback() {
            end(Outcome.ROLLBACK);
        }

        private void end(Outcome outcome) {
            var end = TransactionToEnd.newBuilder().setTopic(message.topic()).setTransactionId(message.id())
                    .setUniqueId(message.id()).setOutcome(outcome.wire).setProducerGroup(group);
            var request = UpdateTransactionsRequest.newBuilder().addEnds(end).build();
            Deadline deadline = client.deadline();
            client.onPrimary(queue.brokerName(), List.of(queue.topic()), deadline, peer -> {
                var answer = client.oneTry(TransactionServiceGrpc::newBlockingStub, peer, deadline)
                        .updateTransactions(request).getEnds(0);
                if (answer.hasError()) {
                    throw ArianeException.of(answer.getError(), peer.address());
                }
                return answer;
            });
        }
    }

    /** Keeps a stream open to every broker of the topics, over which it asks. */
    private void look() {
        for (String topic : topics) {
            try {
                for (BrokerRoute broker : client.route(topic).getBrokersList()) {
                    String address = broker.getAddressesOrDefault(0, "");
                    if (!address.isEmpty()) {
                        attached.computeIfAbsent(address,
                                each -> new Attachment(Peer.broker(each, broker.getBrokerName())));
                    }
                }
            } catch (RuntimeException unknown) {
                continue; // The next look may tell.
            }
        }
    }

    /** The stream to one broker, until it ends; a later look opens another. */
    private final class Attachment implements StreamObserver<AttachResponse> {
        private final String address;
        private StreamObserver<AttachRequest> requests;

        Attachment(Peer peer) {
            address = peer.address();
            Context before = life.attach();
            try {
                requests = client.stub(ClientServiceGrpc::newStub, peer).attach(this);
            } finally {
                life.detach(before);
            }
            send(AttachRequest.newBuilder().setHello(ClientHello.newBuilder().setClientId(id).setLanguage("java")
                    .setSdkVersion(Client.VERSION).addProducerGroups(group)).build());
        }

        void beat() {
            send(AttachRequest.newBuilder().setHeartbeat(ClientHeartbeat.getDefaultInstance()).build());
        }

        /** One thread at a time: a stream takes no two. */
        private synchronized boolean send(AttachRequest request) {
            try {
                requests.onNext(request);
                return true;
            } catch (IllegalStateException ended) {
                return attached.remove(address, this);
            }
        }

        @Override
        public void onNext(AttachResponse notice) {
            if (notice.hasTransactionCheck()) {
                TransactionCheck check = notice.getTransactionCheck();
                client.aside(() -> send(AttachRequest.newBuilder().setTransactionAnswer(answer(check)).build()));
            }
        }

        @Override
        public void onError(Throwable error) {
            over();
        }

        @Override
        public void onCompleted() {
            over();
        }

        private void over() {
            attached.remove(address, this);
            topics.forEach(client.nameServers::forget); // Another may be the primary.
            if (!tasks.isShutdown()) {
                tasks.schedule(TransactionProducer.this::look, 500, TimeUnit.MILLISECONDS);
            }
        }
    }

    private TransactionAnswer answer(TransactionCheck check) {
        TransactionAnswer.Builder answer = TransactionAnswer.newBuilder().setTransactionId(check.getTransactionId())
                .setOutcome(Outcome.UNKNOWN.wire);
        if (!check.hasMessage()) {
            return answer.setCause("the broker did not say the message").build();
        }
        try {
            return answer.setOutcome(checker.apply(Message.of(check.getMessage())).wire).build();
        } catch (Throwable error) {
            return answer.setCause(Listening.cause(error)).build(); // The broker keeps it, and asks again.
        }
    }
}
