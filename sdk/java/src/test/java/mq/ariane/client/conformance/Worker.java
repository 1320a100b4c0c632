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
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import mq.ariane.client.Admin;
import mq.ariane.client.ArianeException;
import mq.ariane.client.Client;
import mq.ariane.client.ClientSettings;
import mq.ariane.client.Consumer;
import mq.ariane.client.ConsumerSettings;
import mq.ariane.client.Delivery;
import mq.ariane.client.Listener;
import mq.ariane.client.Message;
import mq.ariane.client.Nack;
import mq.ariane.client.Outcome;
import mq.ariane.client.Producer;
import mq.ariane.client.Receipt;
import mq.ariane.client.TransactionProducer;
import mq.ariane.client.conformance.Command.Wire;
import mq.ariane.common.v1.Compression;

/**
 * Lets a test play scenarios with this client: commands come as lines of JSON, and each is answered by a line.
 * integration/clients/README.md of ArianeMQ has the commands.
 */
public final class Worker {
    private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();

    /** How many empty answers in a row say that no more messages come. */
    private static final int EMPTY_MAX = 2;

    private static final int ANSWERS_AT_A_TIME = 4;

    private record Held(Consumer consumer, Delivery delivery) {}

    private List<String> nameServers;
    private String token = "";
    private final Map<String, Client> clients = new ConcurrentHashMap<>(); // By how they compress.
    private final Map<String, Producer> senders = new ConcurrentHashMap<>();
    private final List<Receipt> receipts = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, Consumer> consumers = new ConcurrentHashMap<>();
    private final List<Held> deliveries = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, TransactionProducer> producers = new ConcurrentHashMap<>();
    private final List<TransactionProducer.Transaction> transactions = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, String> answers = new ConcurrentHashMap<>();
    private final List<Map<String, Object>> heard = new CopyOnWriteArrayList<>();
    private final AtomicInteger busy = new AtomicInteger();
    private final AtomicInteger most = new AtomicInteger();
    private Thread listening;
    private Spans spans;
    private final List<Map<String, String>> checked = new CopyOnWriteArrayList<>();

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Worker worker = new Worker();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        // Commands are carried out side by side.
        ExecutorService calls = Executors.newCachedThreadPool();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Command asked = GSON.fromJson(line.replaceFirst("\"do\":", "\"do_\":"), Command.class);
            calls.execute(() -> out.println(GSON.toJson(worker.answer(asked))));
        }
        calls.shutdown();
        calls.awaitTermination(1, TimeUnit.MINUTES);
        System.exit(0);
    }

    private Map<String, Object> answer(Command asked) {
        Map<String, Object> answer = new HashMap<>(Map.of("call", asked.call));
        try {
            answer.put("ok", perform(asked));
        } catch (CompletionException failure) {
            answer.put("error", told(failure.getCause()));
        } catch (RuntimeException | InterruptedException failure) {
            answer.put("error", told(failure));
        }
        return answer;
    }

    private static Map<String, Object> told(Throwable failure) {
        if (failure instanceof ArianeException known) {
            return Map.of("reason", known.reason(), "text", known.getMessage(), "outcome_unknown", known.isOutcomeUnknown());
        }
        return Map.of("reason", "", "text", failure.toString(), "outcome_unknown", false);
    }

    private static <T> int add(List<T> list, T each) {
        synchronized (list) {
            list.add(each);
            return list.size() - 1;
        }
    }

    private Object perform(Command asked) throws InterruptedException {
        int number = asked.numbers == null || asked.numbers.isEmpty() ? 0 : asked.numbers.get(0);
        switch (asked.do_) {
            case "connect":
                nameServers = asked.name_servers;
                token = asked.token;
                clients.clear();
                senders.clear();
                sender("");
                return Map.of("language", "java");
            case "send":
                return send(asked);
            case "pump":
                return pump(asked);
            case "drain":
                return drain(asked);
            case "recall":
                return sender("").recall(receipts.get(number));
            case "receive":
                return receive(asked);
            case "listen":
                listen(asked);
                return null;
            case "heard":
                return Map.of("messages", heard, "most", most.get());
            case "request":
                Message reply = sender("").request(sent(asked.messages.get(0)), Duration.ofMillis(asked.timeout_ms));
                return Map.of("body", Base64.getEncoder().encodeToString(reply.body()));
            case "answer":
                answerRequests(asked);
                return null;
            case "administer":
                return new Administration(new Admin(client(""), asked.address)).perform(asked);
            case "spans":
                spans = spans == null ? new Spans() : spans;
                return Map.of("spans", spans.told());
            case "stop":
                listening.interrupt();
                listening.join();
                return null;
            case "lost":
                return consumers.get(asked.group).lostMessageCount();
            case "ack", "nack", "extend":
                settle(asked);
                return null;
            case "transactions":
                answers.put(asked.group, asked.answer);
                producers.computeIfAbsent(asked.group,
                        group -> new TransactionProducer(client(asked.compression), group, List.of(asked.topic), message -> {
                            checked.add(Map.of("id", message.id(), "body",
                                    Base64.getEncoder().encodeToString(message.body())));
                            return Outcome.valueOf(answers.get(group).toUpperCase());
                        }));
                return null;
            case "begin":
                var begun = producers.get(asked.group).begin(sent(asked.messages.get(0)));
                return Map.of("number", add(transactions, begun), "id", begun.id());
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

    private Client client(String compression) {
        return clients.computeIfAbsent(compression, how -> {
            // No play fails because a machine is slow.
            ClientSettings.Builder settings = ClientSettings.builder().tryTimeout(time("TRY_MS", "30000"))
                    .callTimeout(time("CALL_MS", "90000")).producerGroup("conformance");
            if (!token.isEmpty()) {
                settings.token(() -> token);
            }
            if (spans != null) {
                settings.tracing(spans.tracing());
            }
            if (!how.isEmpty()) {
                settings.compression(Compression.valueOf("COMPRESSION_" + how.toUpperCase()));
            }
            return new Client(nameServers, settings.build());
        });
    }

    private static Duration time(String variable, String usual) {
        return Duration.ofMillis(Long.parseLong(System.getenv().getOrDefault(variable, usual)));
    }

    private Producer sender(String compression) {
        return senders.computeIfAbsent(compression, how -> new Producer(client(how)));
    }

    private static Message sent(Wire wire) {
        Message message = Message.of(wire.topic, Base64.getDecoder().decode(wire.body)).withTag(wire.tag)
                .withKeys(wire.keys).inGroup(wire.group).withProperties(wire.properties)
                .withPriority(wire.priority);
        if (!wire.id.isEmpty()) {
            message = message.withId(wire.id);
        }
        return wire.deliver_in_ms == null ? message : message.deliveredAt(Instant.now().plusMillis(wire.deliver_in_ms));
    }

    private Object send(Command asked) {
        List<Map<String, Object>> told = new ArrayList<>();
        for (Receipt receipt : sender(asked.compression).sendBatch(asked.messages.stream().map(Worker::sent).toList())) {
            told.add(Map.of("number", add(receipts, receipt), "id", receipt.id(), "broker", receipt.brokerName(),
                    "queue_id", receipt.queueId(), "offset", receipt.offset()));
        }
        return told;
    }

    /** Sends one message again and again, some calls at a time; returns the seconds. */
    private double pump(Command asked) {
        Producer sender = sender(asked.compression);
        Message message = sent(asked.messages.get(0));
        AtomicLong begun = new AtomicLong();
        long began = System.nanoTime();
        List<CompletableFuture<Void>> lines = new ArrayList<>();
        if (asked.batch > 1) {
            List<Message> batch = Collections.nCopies(asked.batch, message);
            for (int line = 0; line < asked.in_flight; line++) {
                lines.add(CompletableFuture.runAsync(() -> {
                    while (begun.addAndGet(asked.batch) <= asked.count) {
                        sender.sendBatch(batch);
                    }
                }, task -> new Thread(task).start()));
            }
        } else {
            for (int line = 0; line < asked.in_flight; line++) {
                lines.add(new CompletableFuture<>());
                pumpLine(() -> begun.getAndIncrement() < asked.count ? sender.sendAsync(message) : null, lines.get(line));
            }
        }
        lines.forEach(CompletableFuture::join);
        return (System.nanoTime() - began) / 1e9;
    }

    /** Receives and acknowledges until so many messages have come; returns the seconds. */
    private double drain(Command asked) throws InterruptedException {
        Consumer consumer = consumer(asked);
        long began = System.nanoTime();
        int empty = 0;
        for (long left = asked.count; left > 0;) {
            List<Delivery> some = consumer.receive(Duration.ofSeconds(10));
            consumer.ack(some);
            left -= some.size();
            empty = some.isEmpty() ? empty + 1 : 0;
            if (empty == EMPTY_MAX) {
                throw new IllegalStateException(left + " of " + asked.count + " messages are missing");
            }
        }
        return (System.nanoTime() - began) / 1e9;
    }

    /** Sends one after the other until there is no more. */
    private static void pumpLine(Supplier<CompletableFuture<Receipt>> next, CompletableFuture<Void> over) {
        CompletableFuture<Receipt> sending = next.get();
        if (sending == null) {
            over.complete(null);
            return;
        }
        sending.whenComplete((receipt, failure) -> {
            if (failure != null) {
                over.completeExceptionally(failure);
            } else {
                pumpLine(next, over);
            }
        });
    }

    /** Works on messages for a while each; one that is to fail does so at its first attempt. */
    private void listen(Command asked) {
        listen(consumer(asked), asked.in_flight, delivery -> {
            most.accumulateAndGet(busy.incrementAndGet(), Math::max);
            byte[] body = delivery.message().body();
            heard.add(Map.of("body", Base64.getEncoder().encodeToString(body), "attempt", delivery.attempt()));
            Thread.sleep(asked.wait_ms);
            busy.decrementAndGet();
            if (new String(body, StandardCharsets.UTF_8).equals("fail") && delivery.attempt() == 1) {
                throw new IllegalStateException("as told");
            }
        });
    }

    /** Answers each request by its body reversed. */
    private void answerRequests(Command asked) {
        listen(consumer(asked), ANSWERS_AT_A_TIME, delivery -> {
            byte[] body = delivery.message().body();
            byte[] reversed = new byte[body.length];
            for (int place = 0; place < body.length; place++) {
                reversed[place] = body[body.length - 1 - place];
            }
            sender("").reply(delivery, reversed);
        });
    }

    private void listen(Consumer consumer, int concurrency, Listener listener) {
        listening = new Thread(() -> {
            try {
                consumer.listen(concurrency, listener);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
        listening.start();
    }

    private Consumer consumer(Command asked) {
        return consumers.computeIfAbsent(asked.group, group -> {
            ConsumerSettings.Builder settings = ConsumerSettings.builder(group).topic(asked.topic)
                    .maxMessages(asked.max).invisible(Duration.ofMillis(asked.invisible_ms));
            if (!asked.sql.isEmpty()) {
                settings.sql(asked.sql);
            } else if (!asked.tags.isEmpty()) {
                settings.tags(asked.tags);
            }
            asked.more.forEach((topic, tags) -> settings.topic(topic).tags(tags));
            if (asked.by_priority) {
                settings.byPriority();
            }
            return new Consumer(client(""), settings.build());
        });
    }

    private Object receive(Command asked) throws InterruptedException {
        Consumer consumer = consumer(asked);
        List<Wire> told = new ArrayList<>();
        for (Delivery delivery : consumer.receiveAsync(Duration.ofMillis(asked.wait_ms)).join()) {
            Wire wire = new Wire();
            wire.topic = delivery.message().topic();
            wire.body = Base64.getEncoder().encodeToString(delivery.message().body());
            wire.tag = delivery.message().tag();
            wire.keys = delivery.message().keys();
            wire.group = delivery.message().group();
            wire.properties = delivery.message().properties();
            wire.priority = delivery.message().priority();
            wire.id = delivery.message().id();
            wire.attempt = delivery.attempt();
            wire.number = add(deliveries, new Held(consumer, delivery));
            told.add(wire);
        }
        return told;
    }

    private void settle(Command asked) {
        Consumer consumer = deliveries.get(asked.numbers.get(0)).consumer();
        List<Delivery> theirs = asked.numbers.stream().map(number -> deliveries.get(number).delivery()).toList();
        switch (asked.do_) {
            case "ack" -> consumer.ackAsync(theirs).join();
            case "nack" -> consumer.nack(theirs, new Nack(Duration.ofMillis(asked.delay_ms), asked.dead_letter, ""));
            default -> deliveries.set(asked.numbers.get(0), new Held(consumer,
                    consumer.changeInvisible(theirs.get(0), Duration.ofMillis(asked.invisible_ms))));
        }
    }
}
