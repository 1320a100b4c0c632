package mq.ariane.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import mq.ariane.common.v1.FilterExpression;
import mq.ariane.common.v1.FilterKind;

/**
 * Who receives, and what: {@code ConsumerSettings.builder("waiters").topic("orders").tags("hot").topic("bills").build()}.
 */
public final class ConsumerSettings {
    /** What to receive of a topic; all where the filter is null. */
    record Wanted(String topic, FilterExpression filter) {}

    final String group;
    final List<Wanted> wanted;
    final boolean byPriority;
    final int maxMessages;
    final Duration invisible;

    private ConsumerSettings(Builder built) {
        group = built.group;
        wanted = List.copyOf(built.wanted);
        byPriority = built.byPriority;
        maxMessages = built.maxMessages;
        invisible = built.invisible;
    }

    /** All messages of a topic, and all else as the builder begins with it. */
    public static ConsumerSettings of(String group, String topic) {
        return builder(group).topic(topic).build();
    }

    /** Begins with a group, which shares the messages among its consumers, and no topic. */
    public static Builder builder(String group) {
        return new Builder(group);
    }

    List<String> topics() {
        return wanted.stream().map(Wanted::topic).toList();
    }

    /** Collects topics, and what differs from the defaults. */
    public static final class Builder {
        private final String group;
        private final List<Wanted> wanted = new ArrayList<>();
        private boolean byPriority;
        private int maxMessages = 32;
        private Duration invisible = Duration.ofMinutes(1);

        private Builder(String group) {
            this.group = group;
        }

        /** One more topic to receive from, which what follows filters; messages that are tried again come along. */
        public Builder topic(String name) {
            if (wanted.stream().anyMatch(other -> other.topic().equals(name))) {
                throw new IllegalArgumentException("a consumer subscribes twice to topic \"" + name + "\"");
            }
            wanted.add(new Wanted(name, null));
            return this;
        }

        /** Of the last topic, messages of tags only, joined by "||". */
        public Builder tags(String tags) {
            return filtered(FilterKind.FILTER_KIND_TAG, tags);
        }

        /** Of the last topic, messages of a condition over properties only. */
        public Builder sql(String condition) {
            return filtered(FilterKind.FILTER_KIND_SQL92, condition);
        }

        /** Hands out messages of a higher priority first; those of one receive are in the order of their queue. */
        public Builder byPriority() {
            byPriority = true;
            return this;
        }

        /** At most so many come at a time; 32 unless given. */
        public Builder maxMessages(int count) {
            maxMessages = count;
            return this;
        }

        /** How long others do not see what was received; a minute unless given. */
        public Builder invisible(Duration time) {
            invisible = time;
            return this;
        }

        /** The settings, which no later change of the builder reaches. */
        public ConsumerSettings build() {
            if (wanted.isEmpty()) {
                throw new IllegalArgumentException("a consumer subscribes to no topic");
            }
            return new ConsumerSettings(this);
        }

        private Builder filtered(FilterKind kind, String text) {
            if (wanted.isEmpty()) {
                throw new IllegalArgumentException("tags or SQL come after the topic that they filter");
            }
            int index = wanted.size() - 1;
            Wanted last = wanted.get(index);
            if (last.filter() != null) {
                throw new IllegalArgumentException("a consumer filters a topic by tags or by SQL, not by both");
            }
            var filter = FilterExpression.newBuilder().setKind(kind).setText(text).build();
            wanted.set(index, new Wanted(last.topic(), filter));
            return this;
        }
    }
}
