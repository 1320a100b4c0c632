package mq.ariane.client.conformance;

import java.time.Instant;
import java.util.Map;
import mq.ariane.client.Admin;
import mq.ariane.client.GroupSettings;
import mq.ariane.client.TopicSettings;

/** What a program asks of the admin service. */
final class Administration {
    private final Admin admin;

    Administration(Admin admin) {
        this.admin = admin;
    }

    Map<String, Object> perform(Command asked) {
        switch (asked.act) {
            case "create_topic" -> admin.createTopic(asked.topic, TopicSettings.builder().queues(asked.queues).build());
            case "update_topic" -> admin.updateTopic(asked.topic, TopicSettings.builder().queues(asked.queues).build());
            case "delete_topic" -> admin.deleteTopic(asked.topic);
            case "create_group" -> admin.createGroup(asked.group, GroupSettings.builder().build());
            case "delete_group" -> admin.deleteGroup(asked.group);
            case "reset" -> admin.resetBackTo(asked.group, asked.topic, Instant.ofEpochMilli(asked.to_ms));
            case "topics" -> {
                return Map.of("topics", admin.topics().items().stream().map(Admin.Topic::name).toList());
            }
            case "groups" -> {
                return Map.of("groups", admin.groups().items().stream().map(Admin.Group::name).toList());
            }
            case "lag" -> {
                return Map.of("lag", admin.lag(asked.group, asked.topic).items().stream()
                        .mapToLong(Admin.QueueLag::messageCount).sum());
            }
            default -> throw new IllegalArgumentException("no such act: " + asked.act);
        }
        return Map.of();
    }
}
