package mq.ariane.client;

import mq.ariane.admin.v1.UpdateTopicRequest;
import mq.ariane.broker.v1.Topic;
import mq.ariane.common.v1.MessageType;
import mq.ariane.namesrv.v1.TopicPermission;

/**
 * What a topic is made with, or what of it changes: {@code TopicSettings.builder().queues(8).build()}. What is not given is
 * the broker's default for a new topic, and stays as it is otherwise.
 */
public final class TopicSettings {
    private final UpdateTopicRequest change;

    private TopicSettings(UpdateTopicRequest change) {
        this.change = change;
    }

    /** Begins with nothing. */
    public static Builder builder() {
        return new Builder();
    }

    UpdateTopicRequest change(String topic) {
        return change.toBuilder().setTopic(topic).build();
    }

    Topic topic(String name) {
        return Topic.newBuilder().setTopic(name).setReadQueueCount(change.getReadQueueCount())
                .setWriteQueueCount(change.getWriteQueueCount()).setPermission(change.getPermission())
                .setMessageType(change.getMessageType()).putAllAttributes(change.getAttributesMap()).build();
    }

    /** Collects what is given. */
    public static final class Builder {
        private final UpdateTopicRequest.Builder change = UpdateTopicRequest.newBuilder();

        private Builder() {}

        /** So many queues on each broker, to write and to read. */
        public Builder queues(int count) {
            return readQueues(count).writeQueues(count);
        }

        /** So many queues to read on each broker. */
        public Builder readQueues(int count) {
            change.setReadQueueCount(count);
            return this;
        }

        /** So many queues to write on each broker. */
        public Builder writeQueues(int count) {
            change.setWriteQueueCount(count);
            return this;
        }

        /** What is allowed: writing and reading of a new topic. */
        public Builder permission(TopicPermission permission) {
            change.setPermission(permission);
            return this;
        }

        /** What kind of messages it takes: any of a new topic. */
        public Builder messageType(MessageType type) {
            change.setMessageType(type);
            return this;
        }

        /** An attribute, such as {@code retention.ms}; an empty value removes it. */
        public Builder attribute(String name, String value) {
            change.putAttributes(name, value);
            return this;
        }

        /** The settings, which no later change of the builder reaches. */
        public TopicSettings build() {
            return new TopicSettings(change.build());
        }
    }
}
