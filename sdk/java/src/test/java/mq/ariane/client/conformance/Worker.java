package mq.ariane.client.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import mq.ariane.client.ArianeException;
import mq.ariane.client.Client;
import mq.ariane.client.Consumer;
import mq.ariane.client.Delivery;
import mq.ariane.client.Message;
import mq.ariane.client.Nack;
import mq.ariane.client.Outcome;
import mq.ariane.client.Producer;
import mq.ariane.client.Receipt;
import mq.ariane.client.TransactionProducer;

/**
 * Lets a test play scenarios with this client: commands come as lines of JSON, and each is answered by a line.
 * integration/clients/README.md of ArianeMQ has the commands.
 */
public final class Worker {
    private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();

    private static final class Wire {
        String topic;
        String body;
        String tag;
        List<String> keys;
        String group;
        Map<String, String> properties;
        Long deliver_in_ms;
        String id;
        int attempt;
        int number;
    }

    private static final class Command {
        String do_;
        List<String> name_servers;
        List<Wire> messages;
        String topic;
        String group;
        String tags;
        String sql;
        int max;
        long wait_ms;
        long invisible_ms;
        long delay_ms;
        boolean dead_letter;
        List<Integer> numbers;
        String answer;
    }

    private record Held(Consumer consumer, Delivery delivery) {}

    private Client client;
    private Producer producer;
    private final List<Receipt> receipts = new ArrayList<>();
    private final Map<String, Consumer> consumers = new HashMap<>();
    private final List<Held> deliveries = new ArrayList<>();
    private final Map<String, TransactionProducer> producers = new HashMap<>();
    private final List<TransactionProducer.Transaction> transactions = new ArrayList<>();
    private final Map<String, String> answers = new ConcurrentHashMap<>();
    private final List<String> checked = new CopyOnWriteArrayList<>();

    public static void main(String[] arguments) throws IOException {
        Worker worker = new Worker();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("ok", worker.perform(GSON.fromJson(line.replaceFirst("\"do\":", "\"do_\":"), Command.class)));
            } catch (ArianeException failure) {
                answer.put("error", Map.of("reason", failure.reason(), "text", failure.getMessage(),
                        "outcome_unknown", failure.isOutcomeUnknown()));
            } catch (RuntimeException | InterruptedException failure) {
                answer.put("error", Map.of("reason", "", "text", failure.toString(), "outcome_unknown", false));
            }
            out.println(GSON.toJson(answer));
        }
        System.exit(0);
    }

    private Object perform(Command asked) throws InterruptedException {
        int number = asked.numbers == null || asked.numbers.isEmpty() ? 0 : asked.numbers.get(0);
        switch (asked.do_) {
            case "connect":
                client = new Client(asked.name_servers);
                producer = new Producer(client);
                return Map.of("language", "java");
            case "send":
                return send(asked);
            case "recall":
                return producer.recall(receipts.get(number));
            case "receive":
                return receive(asked);
            case "ack", "nack", "extend":
                settle(asked);
                return null;
            case "transactions":
                answers.put(asked.group, asked.answer);
                producers.computeIfAbsent(asked.group,
                        group -> new TransactionProducer(client, group, List.of(asked.topic), message -> {
                            checked.add(message.id());
                            return Outcome.valueOf(answers.get(group).toUpperCase());
                        }));
                return null;
            case "begin":
                transactions.add(producers.get(asked.group).begin(sent(asked.messages.get(0))));
                return Map.of("number", transactions.size() - 1, "id", transactions.get(transactions.size() - 1).id());
            case "commit":
                transactions.get(number).commit();
                return null;
            case "rollback":
                transactions.get(number).rollback();
                return null;
            case "checked":
                return checked;
            default:
                throw new IllegalArgumentException("no such command: " + asked.do_);
        }
    }

    private static Message sent(Wire wire) {
        Message message = Message.of(wire.topic, Base64.getDecoder().decode(wire.body)).withTag(wire.tag)
                .withKeys(wire.keys).inGroup(wire.group).withProperties(wire.properties);
        if (!wire.id.isEmpty()) {
            message = message.withId(wire.id);
        }
        return wire.deliver_in_ms == null ? message : message.deliveredAt(Instant.now().plusMillis(wire.deliver_in_ms));
    }

    private Object send(Command asked) {
        List<Map<String, Object>> told = new ArrayList<>();
        for (Receipt receipt : producer.sendBatch(asked.messages.stream().map(Worker::sent).toList())) {
            told.add(Map.of("number", receipts.size(), "id", receipt.id(), "broker", receipt.brokerName(),
                    "queue_id", receipt.queueId(), "offset", receipt.offset()));
            receipts.add(receipt);
        }
        return told;
    }

    private Object receive(Command asked) throws InterruptedException {
        Consumer consumer = consumers.computeIfAbsent(asked.group, group -> {
            Consumer.Settings settings = Consumer.Settings.of(group, asked.topic)
                    .sized(asked.max, Duration.ofMillis(asked.invisible_ms));
            if (!asked.sql.isEmpty()) {
                settings = settings.withSql(asked.sql);
            } else if (!asked.tags.isEmpty()) {
                settings = settings.withTags(asked.tags);
            }
            return new Consumer(client, settings);
        });
        List<Wire> told = new ArrayList<>();
        for (Delivery delivery : consumer.receive(Duration.ofMillis(asked.wait_ms))) {
            Wire wire = new Wire();
            wire.topic = delivery.message().topic();
            wire.body = Base64.getEncoder().encodeToString(delivery.message().body());
            wire.tag = delivery.message().tag();
            wire.keys = delivery.message().keys();
            wire.group = delivery.message().group();
            wire.properties = delivery.message().properties();
            wire.id = delivery.message().id();
            wire.attempt = delivery.attempt();
            wire.number = deliveries.size();
            told.add(wire);
            deliveries.add(new Held(consumer, delivery));
        }
        return told;
    }

    private void settle(Command asked) {
        Consumer consumer = deliveries.get(asked.numbers.get(0)).consumer();
        List<Delivery> theirs = asked.numbers.stream().map(number -> deliveries.get(number).delivery()).toList();
        switch (asked.do_) {
            case "ack" -> consumer.ack(theirs);
            case "nack" -> consumer.nack(theirs, new Nack(Duration.ofMillis(asked.delay_ms), asked.dead_letter, ""));
            default -> deliveries.set(asked.numbers.get(0), new Held(consumer,
                    consumer.changeInvisible(theirs.get(0), Duration.ofMillis(asked.invisible_ms))));
        }
    }
}
