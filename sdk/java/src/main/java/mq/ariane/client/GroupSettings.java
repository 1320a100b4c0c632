package mq.ariane.client;

import java.time.Duration;
import java.util.List;
import mq.ariane.broker.v1.ConsumerGroup;
import mq.ariane.broker.v1.ConsumerGroupChange;
import mq.ariane.broker.v1.DelayTable;
import mq.ariane.broker.v1.RetryPolicy;

/**
 * What a consumer group is made with, or what of it changes: {@code GroupSettings.builder().attempts(3).build()}. What is
 * not given is the default for a new group, and stays as it is otherwise.
 */
public final class GroupSettings {
    private final ConsumerGroupChange change;

    private GroupSettings(ConsumerGroupChange change) {
        this.change = change;
    }

    /** Begins with nothing. */
    public static Builder builder() {
        return new Builder();
    }

    ConsumerGroupChange change(String group) {
        return change.toBuilder().setConsumerGroup(group).build();
    }

    ConsumerGroup group(String name) {
        var group = ConsumerGroup.newBuilder().setConsumerGroup(name)
                .setRetryPolicy(change.getRetryPolicy()).setReceiveInOrder(change.getReceiveInOrder());
        if (change.hasConsumeEnabled()) {
            group.setConsumeEnabled(change.getConsumeEnabled());
        }
        if (change.hasBroadcastEnabled()) {
            group.setBroadcastEnabled(change.getBroadcastEnabled());
        }
        if (change.hasAttemptsMax()) {
            group.setAttemptsMax(change.getAttemptsMax());
        }
        if (change.hasOrderedAttemptsMax()) {
            group.setOrderedAttemptsMax(change.getOrderedAttemptsMax());
        }
        return group.build();
    }

    /** Collects what is given. */
    public static final class Builder {
        private final ConsumerGroupChange.Builder change = ConsumerGroupChange.newBuilder();

        private Builder() {}

        /** Whether it gets messages: false pauses it. */
        public Builder enabled(boolean enabled) {
            change.setConsumeEnabled(enabled);
            return this;
        }

        /** Whether members may have every message each. */
        public Builder broadcast(boolean allowed) {
            change.setBroadcastEnabled(allowed);
            return this;
        }

        /** How often a message that failed is tried again before it becomes a dead letter; 16 for a new group. */
        public Builder attempts(int most) {
            change.setAttemptsMax(most);
            return this;
        }

        /** The same of a message that others wait for, because they come in order; without limit for a new group. */
        public Builder orderedAttempts(int most) {
            change.setOrderedAttemptsMax(most);
            return this;
        }

        /** How long to wait before each try; the last delay repeats. */
        public Builder retryDelays(List<Duration> delays) {
            var table = DelayTable.newBuilder().addAllDelays(delays.stream().map(Times::of).toList());
            change.setRetryPolicy(RetryPolicy.newBuilder().setTable(table));
            return this;
        }

        /** Whether those who receive get the messages of a message group one after the other. */
        public Builder receiveInOrder(boolean inOrder) {
            change.setReceiveInOrder(inOrder);
            return this;
        }

        /** The settings, which no later change of the builder reaches. */
        public GroupSettings build() {
            return new GroupSettings(change.build());
        }
    }
}
