import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * RocketMQ 5's Java client as a driver: it sends by as many threads as are in flight, and receives
 * by a simple consumer with some threads, each of which acknowledges what it got before it asks for
 * more.
 *
 * <p>Argument: the endpoint, a gateway or RocketMQ's proxy. Reads a JSON object a line, answers with
 * one.
 */
public final class GatewayDriver {
  private static final int RECEIVERS = 4;
  private static final int RECEIVED_MAX = 32;
  private static final Duration HELD = Duration.ofSeconds(1);
  private static final Duration INVISIBLE = Duration.ofSeconds(60);
  private static final Duration REQUEST_MAX = Duration.ofSeconds(30);
  private static final int FAILURES_MAX = 1000;
  private static final long SILENCE_NS_MAX = 30_000_000_000L;

  private final ClientServiceProvider provider = ClientServiceProvider.loadService();
  private final ClientConfiguration configuration;
  private Producer producer;
  private SimpleConsumer consumer;
  private byte[][] bodies = new byte[0][];

  private GatewayDriver(String endpoint) {
    configuration =
        ClientConfiguration.newBuilder()
            .setEndpoints(endpoint)
            .enableSsl(false)
            .setRequestTimeout(REQUEST_MAX)
            .build();
  }

  public static void main(String[] arguments) throws Exception {
    Asked.serve(new GatewayDriver(arguments[0])::answer);
    // The client's threads would keep the process alive for ever.
    System.exit(0);
  }

  private String answer(Asked asked) throws Exception {
    String topic = asked.text("topic");
    switch (asked.text("do")) {
      case "prepare_produce":
        bodies = Bodies.ofSize(asked.number("body_bytes"));
        if (producer == null) {
          producer =
              provider
                  .newProducerBuilder()
                  .setClientConfiguration(configuration)
                  .setTopics(topic)
                  .build();
        }
        return "{}";
      case "produce":
        return produce(asked);
      case "prepare_consume":
        if (consumer == null) {
          consumer =
              provider
                  .newSimpleConsumerBuilder()
                  .setClientConfiguration(configuration)
                  .setConsumerGroup(asked.text("group"))
                  .setAwaitDuration(HELD)
                  .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                  .build();
        }
        return "{}";
      case "consume":
        return consume(asked.number("count"));
      default:
        throw new IllegalArgumentException("not known: " + asked.text("do"));
    }
  }

  private String produce(Asked asked) throws Exception {
    String topic = asked.text("topic");
    int count = asked.number("count");
    AtomicInteger next = new AtomicInteger();
    LongAdder acknowledged = new LongAdder();
    LongAdder failures = new LongAdder();
    long begin = System.nanoTime();
    byThreads(
        asked.number("in_flight"),
        () -> {
          for (int number = next.getAndIncrement(); number < count; number = next.getAndIncrement()) {
            while (!send(topic, number)) {
              failures.increment();
              if (failures.sum() > FAILURES_MAX) {
                return;
              }
            }
            acknowledged.increment();
          }
        });
    double seconds = (System.nanoTime() - begin) / 1e9;
    return "{\"count\": " + acknowledged.sum() + ", \"seconds\": " + seconds + ", \"failures\": "
        + failures.sum() + "}";
  }

  private boolean send(String topic, int number) {
    try {
      producer.send(
          provider
              .newMessageBuilder()
              .setTopic(topic)
              .setBody(bodies[number % bodies.length])
              .build());
      return true;
    } catch (ClientException error) {
      error.printStackTrace();
      return false;
    }
  }

  /** Receives and acknowledges so many; timed from the first messages to the last acknowledgement. */
  private String consume(int count) throws Exception {
    AtomicInteger received = new AtomicInteger();
    LongAdder digest = new LongAdder();
    AtomicLong begin = new AtomicLong();
    AtomicLong end = new AtomicLong();
    AtomicLong heardNs = new AtomicLong(System.nanoTime());
    byThreads(
        RECEIVERS,
        () -> {
          while (received.get() < count && System.nanoTime() - heardNs.get() < SILENCE_NS_MAX) {
            try {
              List<MessageView> messages = consumer.receive(RECEIVED_MAX, INVISIBLE);
              if (messages.isEmpty()) {
                continue;
              }
              begin.compareAndSet(0, System.nanoTime());
              take(messages, digest);
              received.addAndGet(messages.size());
              heardNs.set(System.nanoTime());
              end.accumulateAndGet(System.nanoTime(), Math::max);
            } catch (Exception error) {
              error.printStackTrace();
            }
          }
        });
    double seconds = Math.max(end.get() - begin.get(), 1) / 1e9;
    return "{\"count\": " + received.get() + ", \"seconds\": " + seconds + ", \"digest\": "
        + Long.toUnsignedString(digest.sum()) + "}";
  }

  private void take(List<MessageView> messages, LongAdder digest) {
    CRC32 crc = new CRC32();
    List<CompletableFuture<Void>> acknowledged = new ArrayList<>(messages.size());
    for (MessageView message : messages) {
      crc.reset();
      crc.update(message.getBody());
      digest.add(crc.getValue());
      acknowledged.add(consumer.ackAsync(message));
    }
    acknowledged.forEach(CompletableFuture::join);
  }

  private static void byThreads(int count, Runnable work) throws InterruptedException {
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      threads.add(new Thread(work));
      threads.get(number).start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }
}
