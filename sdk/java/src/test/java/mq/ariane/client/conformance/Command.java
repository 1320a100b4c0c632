package mq.ariane.client.conformance;

import java.util.List;
import java.util.Map;

/** What a line asks for, by the names of its words. */
final class Command {
    /** A message, as it is asked for and told. */
    static final class Wire {
        String topic;
        String body;
        String tag;
        List<String> keys;
        String group;
        Map<String, String> properties;
        Long deliver_in_ms;
        int priority;
        String id;
        int attempt;
        int number;
    }

    int call;
    String do_;
    List<String> name_servers;
    String token;
    List<Wire> messages;
    String topic;
    String group;
    String tags;
    String sql;
    Map<String, String> more;
    boolean by_priority;
    String compression;
    int max;
    long wait_ms;
    long invisible_ms;
    long delay_ms;
    boolean dead_letter;
    List<Integer> numbers;
    String answer;
    long count;
    int batch;
    int in_flight;
    long timeout_ms;
    String address;
    String act;
    int queues;
    long to_ms;
}
