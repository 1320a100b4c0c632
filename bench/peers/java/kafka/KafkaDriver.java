import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java client as a driver of schedules: its own tool for latency sends one message at a time
 * and waits for it, which hides every pause.
 *
 * <p>Arguments: bootstrap servers. Reads a JSON object a line, answers with one.
 */
public final class KafkaDriver {
  private static final int PARTITIONS = 4;

  private final String bootstrap;
  private final Admin admin;
  private final KafkaProducer<byte[], byte[]> producer;
  private int groups;
  private Exchange exchange;
  private Thread listening;
  private final AtomicBoolean stopping = new AtomicBoolean();

  private KafkaDriver(String bootstrap) {
    this.bootstrap = bootstrap;
    admin = Admin.create(settings());
    Properties settings = settings();
    settings.put("acks", "all");
    settings.put("linger.ms", 0);
    producer =
        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
  }

  public static void main(String[] arguments) {
    try {
      Asked.serve(new KafkaDriver(arguments[0])::answer);
      System.exit(0);
    } catch (Exception error) {
      error.printStackTrace();
      System.exit(1);
    }
  }

  private String answer(Asked asked) throws Exception {
    String topic = asked.text("topic");
    switch (asked.text("do")) {
      case "prepare_produce":
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        producer.partitionsFor(topic);
        return "{}";
      case "listen":
        exchange = new Exchange(asked);
        listen(topic);
        return "{}";
      case "send_scheduled":
        return exchange.send(
            (body, later) ->
                producer.send(
                    new ProducerRecord<>(topic, body),
                    (sent, error) -> {
                      if (error == null) {
                        exchange.acknowledged(body);
                      } else {
                        exchange.refused();
                      }
                    }));
      case "heard":
        String heard = exchange.heard();
        stopping.set(true);
        listening.join();
        return heard;
      default:
        throw new IllegalArgumentException("not known: " + asked.text("do"));
    }
  }

  /** Listens with a new group; returns when it has its partitions. */
  private void listen(String topic) throws InterruptedException {
    Properties settings = settings();
    settings.put("group.id", "bench-" + ++groups);
    settings.put("auto.offset.reset", "earliest");
    KafkaConsumer<byte[], byte[]> consumer =
        new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    consumer.subscribe(List.of(topic));
    while (consumer.assignment().isEmpty()) {
      consumer.poll(Duration.ofMillis(100));
    }
    Exchange taking = exchange;
    stopping.set(false);
    listening =
        new Thread(
            () -> {
              while (!stopping.get()) {
                for (ConsumerRecord<byte[], byte[]> record :
                    consumer.poll(Duration.ofMillis(100))) {
                  taking.take(record.value(), System.nanoTime());
                }
              }
              consumer.close();
            });
    listening.start();
  }

  private Properties settings() {
    Properties settings = new Properties();
    settings.putAll(Map.of("bootstrap.servers", bootstrap));
    return settings;
  }
}
