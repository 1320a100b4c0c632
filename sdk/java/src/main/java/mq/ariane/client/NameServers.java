package mq.ariane.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import mq.ariane.namesrv.v1.BrokerIdentity;
import mq.ariane.namesrv.v1.BrokerLiveness;
import mq.ariane.namesrv.v1.ListBrokersRequest;
import mq.ariane.namesrv.v1.ListBrokersResponse;
import mq.ariane.namesrv.v1.RouteServiceGrpc;
import mq.ariane.namesrv.v1.RouteServiceGrpc.RouteServiceBlockingStub;

/** The name servers of a client, and what they said. */
final class NameServers {
    private static final Duration ANSWER_LIFE = Duration.ofSeconds(30);

    /** How long name servers that did not answer are left alone. */
    private static final Duration ANSWER_REST = Duration.ofSeconds(5);

    private static final int ANSWERS_MAX = 4096;
    private static final int PAGE = 1000;

    /** One to a name server: where a topic is, or a message group of it. */
    record Question(String topic, String group) {}

    private record Answer(Object said, long untilNanos) {
        Answer(Object said, Duration life) {
            this(said, System.nanoTime() + life.toNanos());
        }

        boolean isFresh() {
            return untilNanos - System.nanoTime() > 0;
        }
    }

    private final Client client;
    private final Sources sources;
    private final Map<Question, Answer> known = new ConcurrentHashMap<>();
    /** Questions on their way. */
    private final Map<Question, CompletableFuture<Object>> asking = new ConcurrentHashMap<>();
    /** Which is asked next: another one when it fails. */
    private final AtomicInteger next;

    NameServers(Client client, List<String> addresses) {
        this.client = client;
        sources = new Sources(addresses, client::shared);
        next = new AtomicInteger(ThreadLocalRandom.current().nextInt(addresses.size()));
    }

    /** Whether an answer is known that is still believed. */
    boolean isFresh(Question asked) {
        Answer answer = known.get(asked);
        return answer != null && answer.isFresh();
    }

    /** Has what is known of a topic asked anew. */
    void forget(String topic) {
        known.replaceAll((asked, answer) -> asked.topic.equals(topic) ? new Answer(answer.said, Duration.ZERO) : answer);
    }

    /** Changes what is known, old or not, if anything is. */
    @SuppressWarnings("unchecked") // A question has answers of one type.
    <A> void change(Question asked, UnaryOperator<A> change) {
        Answer before = known.get(asked);
        if (before != null) {
            A changed = change.apply((A) before.said);
            known.computeIfPresent(asked, (same, now) -> new Answer(changed, now.untilNanos));
        }
    }

    /**
     * Asks one name server after the other until one answers or the time is over: asking is always safe to repeat. What
     * was known before holds where the next one that is asked does not answer.
     */
    @SuppressWarnings("unchecked") // A question has answers of one type.
    <A> A ask(Question asked, Deadline deadline, Function<RouteServiceBlockingStub, A> ask) {
        for (int tries = 0;; tries++) {
            Answer before = known.get(asked);
            if (before != null && before.isFresh()) {
                return (A) before.said;
            }
            int place = next.get();
            int count = 1;
            String address = "";
            try {
                List<String> servers = sources.addresses(deadline);
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
                next.compareAndSet(place, place + 1);
                sources.doubt();
                if (before != null) { // It may lead elsewhere by now.
                    return (A) known.compute(asked, (same, now) ->
                            new Answer((now == null ? before : now).said, ANSWER_REST)).said;
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
        if (before == null && since != null && since.isFresh()) {
            asking.remove(asked); // The one before has answered since this was looked up.
            own.complete(since.said);
        } else if (before == null) {
            try {
                client.shared(() -> ask.apply(client.oneTry(RouteServiceGrpc::newBlockingStub, Peer.nameServer(address),
                        Deadline.in(client.settings().tryTimeout))))
                        .whenComplete((said, failure) -> answer(asked, own, said, failure));
            } catch (ArianeException closed) {
                answer(asked, own, null, closed);
            }
        }
        return (A) Client.answerOf(before == null ? own : before, address, deadline);
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

    /** Where the primaries of a cluster are. */
    List<BrokerIdentity> primaries(String cluster, Deadline deadline) {
        // No topic is called so, and brokers are asked for by their cluster.
        return ask(new Question("", cluster), deadline, stub -> primaries(stub, cluster));
    }

    /** The same as one name server says it now. */
    static List<BrokerIdentity> primaries(RouteServiceBlockingStub stub, String cluster) {
        List<BrokerIdentity> found = new ArrayList<>();
        var request = ListBrokersRequest.newBuilder().setPageSize(PAGE).setClusterName(cluster);
        do {
            ListBrokersResponse page = stub.listBrokers(request.build());
            page.getBrokersList().stream().map(BrokerLiveness::getIdentity).filter(each -> each.getBrokerId() == 0)
                    .forEach(found::add);
            request.setPageToken(page.getNextPageToken());
        } while (!request.getPageToken().isEmpty());
        return found;
    }
}
