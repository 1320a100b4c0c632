import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Speaks the lines of README.md and acts with RocketMQ's own Java client. */
public final class Driver {
    private static final Duration AWAIT = Duration.ofSeconds(5);

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final Map<String, AutoCloseable> clients = new ConcurrentHashMap<>();
    private final Map<String, Listener> listeners = new ConcurrentHashMap<>();
    private final Map<String, Checker> checkers = new ConcurrentHashMap<>();
    private final List<Delivery> deliveries = Collections.synchronizedList(new ArrayList<>());
    private final List<Transaction> transactions = Collections.synchronizedList(new ArrayList<>());
    private ClientConfiguration configuration;

    private record Delivery(SimpleConsumer consumer, MessageView message) {}

    /** What a listener heard, and which attempts it fails. */
    private record Listener(JsonArray heard, int fail, long takeMs) {
        ConsumeResult consume(MessageView message) {
            try {
                Thread.sleep(takeMs);
            } catch (InterruptedException interrupted) {
                return ConsumeResult.FAILURE;
            }
            synchronized (heard) {
                heard.add(received(message));
            }
            boolean fails = message.getDeliveryAttempt() <= fail;
            return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        }
    }

    private static final class Checker {
        private final JsonArray asked = new JsonArray();
        private volatile TransactionResolution answer = TransactionResolution.UNKNOWN;

        TransactionResolution check(MessageView message) {
            JsonObject said = new JsonObject();
            said.addProperty("id", message.getMessageId().toString());
            said.addProperty("body", body(message));
            synchronized (asked) {
                asked.add(said);
            }
            return answer;
        }
    }

    private JsonElement perform(JsonObject asked) throws Exception {
        switch (text(asked, "do")) {
            case "connect":
                connect(asked);
                return null;
            case "send":
                return send(asked);
            case "recall":
                return new JsonPrimitive(
                        producer(asked)
                                .recallMessage(text(asked, "topic"), text(asked, "recall"))
                                .getMessageId()
                                .toString());
            case "receive":
                return receive(asked);
            case "ack":
                for (Delivery each : held(asked)) {
                    each.consumer().ack(each.message());
                }
                return null;
            case "extend":
                for (Delivery each : held(asked)) {
                    each.consumer().changeInvisibleDuration(each.message(), invisible(asked));
                }
                return null;
            case "listen":
                listen(asked);
                return null;
            case "heard":
                return heard(asked);
            case "leave":
                leave(text(asked, "group"));
                return null;
            default:
                return transact(asked);
        }
    }

    private void connect(JsonObject asked) {
        var builder =
                ClientConfiguration.newBuilder()
                        .setEndpoints(text(asked, "endpoints"))
                        .enableSsl(asked.get("tls").getAsBoolean())
                        .setNamespace(text(asked, "namespace"))
                        .setRequestTimeout(Duration.ofMillis(asked.get("timeout_ms").getAsLong()));
        if (!text(asked, "key").isEmpty()) {
            builder.setCredentialProvider(
                    new StaticSessionCredentialsProvider(text(asked, "key"), text(asked, "secret")));
        }
        configuration = builder.build();
    }

    private JsonElement send(JsonObject asked) throws Exception {
        Producer producer = producer(asked);
        JsonArray receipts = new JsonArray();
        for (JsonElement each : asked.getAsJsonArray("messages")) {
            SendReceipt receipt = producer.send(sent(each.getAsJsonObject()));
            JsonObject said = new JsonObject();
            said.addProperty("id", receipt.getMessageId().toString());
            said.addProperty("recall", receipt.getRecallHandle());
            receipts.add(said);
        }
        return receipts;
    }

    private JsonElement receive(JsonObject asked) throws Exception {
        String group = text(asked, "group");
        SimpleConsumer consumer =
                client(
                        "simple " + group,
                        () ->
                                provider.newSimpleConsumerBuilder()
                                        .setClientConfiguration(configuration)
                                        .setConsumerGroup(group)
                                        .setAwaitDuration(AWAIT)
                                        .setSubscriptionExpressions(wanted(asked))
                                        .build());
        JsonArray found = new JsonArray();
        for (MessageView each : consumer.receive(asked.get("max").getAsInt(), invisible(asked))) {
            JsonObject said = received(each);
            synchronized (deliveries) {
                said.addProperty("number", deliveries.size());
                deliveries.add(new Delivery(consumer, each));
            }
            found.add(said);
        }
        return found;
    }

    private void listen(JsonObject asked) throws Exception {
        String group = text(asked, "group");
        client(
                "push " + group,
                () -> {
                    int fail = asked.get("fail").getAsInt();
                    long takeMs = asked.get("take_ms").getAsLong();
                    Listener listener = new Listener(new JsonArray(), fail, takeMs);
                    listeners.put(group, listener);
                    return provider.newPushConsumerBuilder()
                            .setClientConfiguration(configuration)
                            .setConsumerGroup(group)
                            .setSubscriptionExpressions(wanted(asked))
                            .setMessageListener(listener::consume)
                            .build();
                });
    }

    private JsonElement heard(JsonObject asked) {
        JsonArray heard = listeners.get(text(asked, "group")).heard();
        synchronized (heard) {
            JsonArray copy = heard.deepCopy();
            while (!heard.isEmpty()) {
                heard.remove(heard.size() - 1);
            }
            return copy;
        }
    }

    private void leave(String group) throws Exception {
        for (String kind : List.of("push ", "simple ")) {
            AutoCloseable client = clients.remove(kind + group);
            if (client != null) {
                client.close();
            }
        }
    }

    private JsonElement transact(JsonObject asked) throws Exception {
        String verb = text(asked, "do");
        switch (verb) {
            case "commit":
                transactions.get(asked.getAsJsonArray("numbers").get(0).getAsInt()).commit();
                return null;
            case "rollback":
                transactions.get(asked.getAsJsonArray("numbers").get(0).getAsInt()).rollback();
                return null;
            default:
        }
        Producer producer = producer(asked);
        Checker checker = checkers.get(text(asked, "topic"));
        switch (verb) {
            case "transactions":
                String answer = text(asked, "answer").toUpperCase();
                checker.answer = TransactionResolution.valueOf(answer);
                return null;
            case "begin":
                Transaction transaction = producer.beginTransaction();
                JsonObject message = asked.getAsJsonArray("messages").get(0).getAsJsonObject();
                SendReceipt receipt = producer.send(sent(message), transaction);
                JsonObject said = new JsonObject();
                synchronized (transactions) {
                    said.addProperty("number", transactions.size());
                    transactions.add(transaction);
                }
                said.addProperty("id", receipt.getMessageId().toString());
                return said;
            case "checked":
                synchronized (checker.asked) {
                    return checker.asked.deepCopy();
                }
            default:
                throw new IllegalArgumentException("no such command: " + verb);
        }
    }

    private Producer producer(JsonObject asked) throws Exception {
        String topic = text(asked, "topic");
        return client(
                "producer " + topic,
                () -> {
                    Checker checker = new Checker();
                    checkers.put(topic, checker);
                    return provider.newProducerBuilder()
                            .setClientConfiguration(configuration)
                            .setTopics(topic)
                            .setTransactionChecker(checker::check)
                            .build();
                });
    }

    /** A client, started by the first who asks for it. */
    @SuppressWarnings("unchecked")
    private <T extends AutoCloseable> T client(String name, Callable<T> start) throws Exception {
        synchronized (name.intern()) {
            AutoCloseable found = clients.get(name);
            if (found == null) {
                found = start.call();
                clients.put(name, found);
            }
            return (T) found;
        }
    }

    private List<Delivery> held(JsonObject asked) {
        List<Delivery> found = new ArrayList<>();
        for (JsonElement number : asked.getAsJsonArray("numbers")) {
            found.add(deliveries.get(number.getAsInt()));
        }
        return found;
    }

    private Message sent(JsonObject said) {
        MessageBuilder builder =
                provider.newMessageBuilder()
                        .setTopic(text(said, "topic"))
                        .setBody(Base64.getDecoder().decode(text(said, "body")));
        if (!text(said, "tag").isEmpty()) {
            builder.setTag(text(said, "tag"));
        }
        List<String> keys = new ArrayList<>();
        said.getAsJsonArray("keys").forEach(each -> keys.add(each.getAsString()));
        if (!keys.isEmpty()) {
            builder.setKeys(keys.toArray(new String[0]));
        }
        said.getAsJsonObject("properties")
                .entrySet()
                .forEach(each -> builder.addProperty(each.getKey(), each.getValue().getAsString()));
        if (!text(said, "group").isEmpty()) {
            builder.setMessageGroup(text(said, "group"));
        }
        long delayMs = said.get("deliver_in_ms").getAsLong();
        if (delayMs != 0) {
            builder.setDeliveryTimestamp(System.currentTimeMillis() + delayMs);
        }
        if (!said.get("priority").isJsonNull()) {
            Priorities.set(builder, said.get("priority").getAsInt());
        }
        return builder.build();
    }

    /** Versions of the client before 5.1 have no priorities. */
    private static final class Priorities {
        static void set(MessageBuilder builder, int priority) {
            try {
                MessageBuilder.class.getMethod("setPriority", int.class).invoke(builder, priority);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static JsonObject received(MessageView message) {
        JsonObject said = new JsonObject();
        said.addProperty("topic", message.getTopic());
        said.addProperty("body", body(message));
        said.addProperty("tag", message.getTag().orElse(""));
        JsonArray keys = new JsonArray();
        new TreeSet<>(message.getKeys()).forEach(keys::add);
        said.add("keys", keys);
        said.addProperty("group", message.getMessageGroup().orElse(""));
        JsonObject properties = new JsonObject();
        message.getProperties().forEach(properties::addProperty);
        said.add("properties", properties);
        said.addProperty("id", message.getMessageId().toString());
        said.addProperty("attempt", message.getDeliveryAttempt());
        // The client hands out no message whose digest differs.
        said.addProperty("corrupted", false);
        said.addProperty("at_ms", System.currentTimeMillis());
        return said;
    }

    private static String body(MessageView message) {
        byte[] body = new byte[message.getBody().remaining()];
        message.getBody().get(body);
        return Base64.getEncoder().encodeToString(body);
    }

    private static Map<String, FilterExpression> wanted(JsonObject asked) {
        String sql = text(asked, "sql");
        String tags = text(asked, "tags");
        FilterExpression filter =
                sql.isEmpty()
                        ? new FilterExpression(tags.isEmpty() ? "*" : tags)
                        : new FilterExpression(sql, FilterExpressionType.SQL92);
        return Map.of(text(asked, "topic"), filter);
    }

    private static Duration invisible(JsonObject asked) {
        return Duration.ofMillis(asked.get("invisible_ms").getAsLong());
    }

    private static String text(JsonObject asked, String name) {
        return asked.get(name).getAsString();
    }

    private static String reason(Throwable error) {
        String name = error.getClass().getSimpleName();
        return name.isEmpty() ? error.getClass().getName() : name;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Gson gson = new Gson();
        Gson writer = new com.google.gson.GsonBuilder().serializeNulls().create();
        Driver driver = new Driver();
        ExecutorService pool = Executors.newCachedThreadPool();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject asked = gson.fromJson(line, JsonObject.class);
            pool.execute(
                    () -> {
                        JsonObject said = new JsonObject();
                        said.add("call", asked.get("call"));
                        try {
                            said.add("ok", driver.perform(asked));
                        } catch (Throwable error) {
                            JsonObject failed = new JsonObject();
                            failed.addProperty("reason", reason(error));
                            error.printStackTrace();
                            failed.addProperty("text", error.toString());
                            failed.addProperty("outcome_unknown", false);
                            said.add("error", failed);
                        }
                        synchronized (out) {
                            out.println(writer.toJson(said));
                            out.flush();
                        }
                    });
        }
        pool.shutdown();
        pool.awaitTermination(30, TimeUnit.SECONDS);
        for (AutoCloseable client : driver.clients.values()) {
            client.close();
        }
        System.exit(0);
    }
}
