package mq.ariane.client;

import io.grpc.Channel;
import io.grpc.Metadata;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import mq.ariane.admin.v1.BrokerOutcome;
import mq.ariane.admin.v1.ClusterGroup;
import mq.ariane.admin.v1.ClusterTopic;
import mq.ariane.admin.v1.CreateGroupRequest;
import mq.ariane.admin.v1.CreateTopicRequest;
import mq.ariane.admin.v1.DeleteGroupRequest;
import mq.ariane.admin.v1.DeleteTopicRequest;
import mq.ariane.admin.v1.GetGroupRequest;
import mq.ariane.admin.v1.GetTopicRequest;
import mq.ariane.admin.v1.GroupServiceGrpc;
import mq.ariane.admin.v1.GroupServiceGrpc.GroupServiceBlockingStub;
import mq.ariane.admin.v1.LagServiceGrpc;
import mq.ariane.admin.v1.ListGroupsRequest;
import mq.ariane.admin.v1.ListQueueLagsRequest;
import mq.ariane.admin.v1.ListTopicsRequest;
import mq.ariane.admin.v1.ResetGroupOffsetsRequest;
import mq.ariane.admin.v1.SilentBroker;
import mq.ariane.admin.v1.TopicServiceGrpc;
import mq.ariane.admin.v1.TopicServiceGrpc.TopicServiceBlockingStub;
import mq.ariane.admin.v1.UpdateGroupRequest;
import mq.ariane.common.v1.MessageType;
import mq.ariane.namesrv.v1.TopicPermission;

/**
 * Makes, changes and shows the topics and consumer groups of a cluster, by its admin service. It uses the connections of a
 * client, and needs no closing of its own. A call takes at most the client's call timeout; those that only ask are repeated
 * meanwhile. A change that fails on some brokers throws what one of them said, with an unknown outcome: the others have made
 * it. To repeat it does what is still missing.
 */
public final class Admin {
    private static final int PAGE = 1000;
    private static final Metadata.Key<String> CLAIMED_USER =
            Metadata.Key.of("x-ariane-claimed-user", Metadata.ASCII_STRING_MARSHALLER);

    /**
     * What was found.
     *
     * @param items by name
     * @param silentBrokers those that did not answer: their part is missing
     */
    public record Listing<T>(List<T> items, Set<String> silentBrokers) {}

    /**
     * A topic of the cluster.
     *
     * @param name its name
     * @param parts its part on each broker
     * @param uneven whether they differ in more than their version
     * @param messageCount how many messages are kept; 0 in a list
     * @param sizeBytes about how many bytes; 0 in a list
     * @param consumerGroups some of the groups that have an offset in it; none in a list
     * @param silentBrokers those that did not answer: their part is missing; none in a list, which has its own
     */
    public record Topic(String name, List<TopicPart> parts, boolean uneven, long messageCount, long sizeBytes,
            List<String> consumerGroups, Set<String> silentBrokers) {}

    /** A topic on one broker. */
    public record TopicPart(String clusterName, String brokerName, int readQueueCount, int writeQueueCount,
            TopicPermission permission, MessageType messageType, Map<String, String> attributes) {}

    /**
     * A consumer group of the cluster.
     *
     * @param name its name
     * @param parts its settings on each broker
     * @param uneven whether they differ in more than their version
     * @param memberCount live members
     * @param lagMessageCount messages that it has not consumed
     * @param oldestStoreTime when the oldest of them was stored; null without one
     * @param deadLetterCount its dead letters; 0 in a list
     * @param topics some of those that it has offsets of
     * @param silentBrokers those that did not answer: their part is missing; none in a list, which has its own
     */
    public record Group(String name, List<GroupPart> parts, boolean uneven, int memberCount, long lagMessageCount,
            Instant oldestStoreTime, long deadLetterCount, List<String> topics, Set<String> silentBrokers) {}

    /** A group on one broker; {@link GroupSettings} says what each setting means. */
    public record GroupPart(String clusterName, String brokerName, boolean enabled, boolean broadcast, int attempts,
            int orderedAttempts, boolean receiveInOrder) {}

    /**
     * How far a group is behind in a queue.
     *
     * @param topic the queue's
     * @param brokerName where it is
     * @param queueId its number there
     * @param consumerOffset where the group goes on
     * @param maxOffset where the queue ends
     * @param messageCount messages that are not consumed
     * @param oldestStoreTime when the oldest of them was stored; null without one
     * @param clientId the member that owns the queue; empty for none
     */
    public record QueueLag(String topic, String brokerName, int queueId, long consumerOffset, long maxOffset,
            long messageCount, Instant oldestStoreTime, String clientId) {}

    /** Where a group goes on in a queue of a topic. */
    public record QueueOffset(String brokerName, int queueId, long offset) {}

    private final Client client;
    private final Peer peer;

    /** The admin service at an address, "host:port", of the cluster of a client. */
    public Admin(Client client, String address) {
        if (!Sources.isAddress(address)) {
            throw new IllegalArgumentException("admin \"" + address + "\": host:port is expected, as in 127.0.0.1:9881");
        }
        this.client = client;
        peer = new Peer(address, "admin", "");
    }

    /** Makes a topic on every broker; TOPIC_EXISTS where all have it. */
    public Topic createTopic(String name, TopicSettings settings) {
        var request = CreateTopicRequest.newBuilder().setTopic(settings.topic(name)).build();
        var answer = change(TopicServiceGrpc::newBlockingStub, stub -> stub.createTopic(request));
        check(answer.getOutcomesList());
        return topic(answer.getTopic(), List.of());
    }

    /** Changes what is given, on all brokers of a topic. */
    public Topic updateTopic(String name, TopicSettings settings) {
        var request = settings.change(name);
        var answer = change(TopicServiceGrpc::newBlockingStub, stub -> stub.updateTopic(request));
        check(answer.getOutcomesList());
        return topic(answer.getTopic(), List.of());
    }

    /** Deletes a topic with its messages. */
    public void deleteTopic(String name) {
        var request = DeleteTopicRequest.newBuilder().setTopic(name).build();
        check(change(TopicServiceGrpc::newBlockingStub, stub -> stub.deleteTopic(request)).getOutcomesList());
    }

    /** Shows a topic. */
    public Topic topic(String name) {
        var request = GetTopicRequest.newBuilder().setTopic(name).build();
        var answer = ask(TopicServiceGrpc::newBlockingStub, stub -> stub.getTopic(request));
        return topic(answer.getTopic(), answer.getSilentBrokersList());
    }

    /** All topics, but for those of the system. */
    public Listing<Topic> topics() {
        return listed(TopicServiceGrpc::newBlockingStub, (TopicServiceBlockingStub stub, String token) -> {
            var page = stub.listTopics(ListTopicsRequest.newBuilder().setPageSize(PAGE).setPageToken(token).build());
            return new Page<>(page.getTopicsList().stream().map(each -> topic(each, List.of())).toList(),
                    page.getSilentBrokersList(), page.getNextPageToken());
        });
    }

    /** Makes a consumer group on every broker; GROUP_EXISTS where all have it. */
    public Group createGroup(String name, GroupSettings settings) {
        var request = CreateGroupRequest.newBuilder().setGroup(settings.group(name)).build();
        var answer = change(GroupServiceGrpc::newBlockingStub, stub -> stub.createGroup(request));
        check(answer.getOutcomesList());
        return group(answer.getGroup(), List.of());
    }

    /** Changes what is given, on all brokers of a group. */
    public Group updateGroup(String name, GroupSettings settings) {
        var request = UpdateGroupRequest.newBuilder().setGroup(settings.change(name)).build();
        var answer = change(GroupServiceGrpc::newBlockingStub, stub -> stub.updateGroup(request));
        check(answer.getOutcomesList());
        return group(answer.getGroup(), List.of());
    }

    /** Deletes a group with its offsets and dead letters; GROUP_IN_USE while it has members. */
    public void deleteGroup(String name) {
        var request = DeleteGroupRequest.newBuilder().setConsumerGroup(name).build();
        check(change(GroupServiceGrpc::newBlockingStub, stub -> stub.deleteGroup(request)).getOutcomesList());
    }

    /** Shows a group. */
    public Group group(String name) {
        var request = GetGroupRequest.newBuilder().setConsumerGroup(name).build();
        var answer = ask(GroupServiceGrpc::newBlockingStub, stub -> stub.getGroup(request));
        return group(answer.getGroup(), answer.getSilentBrokersList());
    }

    /** All consumer groups, but for those of the system. */
    public Listing<Group> groups() {
        return listed(GroupServiceGrpc::newBlockingStub, (GroupServiceBlockingStub stub, String token) -> {
            var page = stub.listGroups(ListGroupsRequest.newBuilder().setPageSize(PAGE).setPageToken(token).build());
            return new Page<>(page.getGroupsList().stream().map(each -> group(each, List.of())).toList(),
                    page.getSilentBrokersList(), page.getNextPageToken());
        });
    }

    /** How far a group is behind, queue by queue; of one topic, or of all where that is empty. */
    public Listing<QueueLag> lag(String group, String topic) {
        var request = ListQueueLagsRequest.newBuilder().setConsumerGroup(group).setTopic(topic).setPageSize(PAGE);
        return listed(LagServiceGrpc::newBlockingStub, (LagServiceGrpc.LagServiceBlockingStub stub, String token) -> {
            var page = stub.listQueueLags(request.setPageToken(token).build());
            return new Page<>(page.getLagsList().stream().map(Admin::queueLag).toList(), page.getSilentBrokersList(),
                    page.getNextPageToken());
        });
    }

    /** Has a group go on with the oldest messages of a topic; returns where it goes on now. */
    public List<QueueOffset> resetToEarliest(String group, String topic) {
        return reset(group, topic, ResetGroupOffsetsRequest.newBuilder().setEarliest(true));
    }

    /** Has a group go on behind the newest messages of a topic: those before are skipped. */
    public List<QueueOffset> resetToLatest(String group, String topic) {
        return reset(group, topic, ResetGroupOffsetsRequest.newBuilder().setEarliest(false));
    }

    /**
     * Has a group go on with the first messages that were stored then or later. Queues of which that would skip messages
     * stay as they are, and are left out of what is returned.
     */
    public List<QueueOffset> resetBackTo(String group, String topic, Instant time) {
        return reset(group, topic, ResetGroupOffsetsRequest.newBuilder().setTime(Times.of(time)).setOnlyBack(true));
    }

    private List<QueueOffset> reset(String group, String topic, ResetGroupOffsetsRequest.Builder target) {
        var request = target.setConsumerGroup(group).setTopic(topic).build();
        var answer = change(GroupServiceGrpc::newBlockingStub, stub -> stub.resetGroupOffsets(request));
        check(answer.getOutcomesList());
        return answer.getOffsetsList().stream()
                .map(each -> new QueueOffset(each.getBrokerName(), each.getQueueId(), each.getQueueOffset())).toList();
    }

    private <S extends AbstractStub<S>> S stub(Function<Channel, S> kind, Deadline deadline) {
        return client.stub(kind, peer).withDeadlineAfter(deadline.left().toNanos(), TimeUnit.NANOSECONDS);
    }

    /** Asks until there is an answer or the time is over: that changes nothing. */
    private <S extends AbstractStub<S>, A> A ask(Function<Channel, S> kind, Function<S, A> call) {
        Deadline deadline = client.deadline();
        for (int repeats = 0;; repeats++) {
            try {
                return call.apply(stub(kind, deadline));
            } catch (RuntimeException error) {
                ArianeException failure = ArianeException.of(error, "admin " + peer.address()).withOutcome(false);
                if (!failure.isRetriable() || !deadline.pause(repeats, failure.retryAfter())) {
                    throw failure;
                }
            }
        }
    }

    /** Asks for a change once, in the name of the local user: an open cluster notes it in its audit trail. */
    private <S extends AbstractStub<S>, A> A change(Function<Channel, S> kind, Function<S, A> call) {
        Metadata claim = new Metadata();
        String user = System.getProperty("user.name", "somebody") + "@" + client.id().split("@", 2)[0];
        claim.put(CLAIMED_USER, user.replaceAll("[^ -~]", "?"));
        try {
            return call.apply(stub(kind, client.deadline())
                    .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(claim)));
        } catch (RuntimeException error) {
            throw ArianeException.of(error, "admin " + peer.address());
        }
    }

    /** Throws what brokers said whose part of a change has failed. */
    private static void check(List<BrokerOutcome> outcomes) {
        List<ArianeException> failures = outcomes.stream().filter(BrokerOutcome::hasError)
                .map(each -> ArianeException.of(each.getError(), each.getBrokerName()).withOutcome(true)).toList();
        if (!failures.isEmpty()) {
            failures.stream().skip(1).forEach(failures.get(0)::addSuppressed);
            throw failures.get(0);
        }
    }

    private record Page<T>(List<T> items, List<SilentBroker> silent, String next) {}

    private interface Pages<S, T> {
        Page<T> page(S stub, String token);
    }

    private <S extends AbstractStub<S>, T> Listing<T> listed(Function<Channel, S> kind, Pages<S, T> pages) {
        List<T> items = new ArrayList<>();
        Set<String> silent = new TreeSet<>();
        String token = "";
        do {
            String from = token;
            Page<T> page = ask(kind, stub -> pages.page(stub, from));
            items.addAll(page.items);
            silent.addAll(names(page.silent));
            token = page.next;
        } while (!token.isEmpty());
        return new Listing<>(List.copyOf(items), Set.copyOf(silent));
    }

    private static List<String> names(List<SilentBroker> brokers) {
        return brokers.stream().map(SilentBroker::getBrokerName).toList();
    }

    private static Topic topic(ClusterTopic wire, List<SilentBroker> silent) {
        List<TopicPart> parts = wire.getPlacementsList().stream().map(each -> {
            var topic = each.getTopic();
            return new TopicPart(each.getClusterName(), each.getBrokerName(), topic.getReadQueueCount(),
                    topic.getWriteQueueCount(), topic.getPermission(), topic.getMessageType(),
                    Map.copyOf(topic.getAttributesMap()));
        }).toList();
        return new Topic(wire.getTopic(), parts, wire.getUneven(), wire.getMessageCount(), wire.getSizeBytes(),
                List.copyOf(wire.getConsumerGroupsList()), Set.copyOf(names(silent)));
    }

    private static Group group(ClusterGroup wire, List<SilentBroker> silent) {
        List<GroupPart> parts = wire.getPlacementsList().stream().map(each -> {
            var group = each.getGroup();
            return new GroupPart(each.getClusterName(), each.getBrokerName(), group.getConsumeEnabled(),
                    group.getBroadcastEnabled(), group.getAttemptsMax(), group.getOrderedAttemptsMax(),
                    group.getReceiveInOrder());
        }).toList();
        return new Group(wire.getConsumerGroup(), parts, wire.getUneven(), wire.getMemberCount(),
                wire.getLagMessageCount(), wire.hasOldestStoreTime() ? Times.of(wire.getOldestStoreTime()) : null,
                wire.getDeadLetterCount(), List.copyOf(wire.getTopicsList()), Set.copyOf(names(silent)));
    }

    private static QueueLag queueLag(mq.ariane.admin.v1.QueueLag wire) {
        var lag = wire.getLag();
        return new QueueLag(lag.getTopic(), wire.getBrokerName(), lag.getQueueId(), lag.getConsumerOffset(),
                lag.getMaxQueueOffset(), lag.getMessageCount(),
                lag.hasOldestStoreTime() ? Times.of(lag.getOldestStoreTime()) : null, wire.getClientId());
    }
}
