import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Stores a backlog in RocketMQ, and reads it as groups that lag; as bench/backlog does it with us.
 *
 * <p>Arguments: name server, broker. Reads a JSON object a line, answers with one.
 */
public final class BacklogReader {
  private static final int BATCH = 1000;
  private static final int BODIES = 64;
  /** The most that its broker gives in an answer. */
  private static final int PULL_BATCH = 32;
  private static final long POLL_MS = 1000;
  /** After so many polls that brought nothing a queue has ended. */
  private static final int EMPTY_POLLS_MAX = 5;
  private static final int ROUTE_TRIES_MAX = 300;

  private final String nameServer;
  private final String broker;
  private final LongAdder read = new LongAdder();
  private final List<Long> counts = new ArrayList<>();
  private volatile boolean stopped;

  private BacklogReader(String nameServer, String broker) {
    this.nameServer = nameServer;
    this.broker = broker;
  }

  public static void main(String[] arguments) throws Exception {
    Asked.serve(new BacklogReader(arguments[0], arguments[1])::answer);
    System.exit(0);
  }

  private String answer(Asked asked) throws Exception {
    switch (asked.text("do")) {
      case "fill":
        return fill(asked);
      case "lag":
        lag(asked);
        return "{}";
      case "lagged":
        stopped = true;
        synchronized (counts) {
          return "{\"counts\": " + counts + "}";
        }
      default:
        throw new IllegalArgumentException("not known: " + asked.text("do"));
    }
  }

  /** Sends so many messages in batches, to each queue in turn. */
  private String fill(Asked asked) throws Exception {
    String topic = asked.text("topic");
    int count = asked.number("count");
    int queueCount = asked.number("queues");
    DefaultMQAdminExt admin = new DefaultMQAdminExt();
    admin.setNamesrvAddr(nameServer);
    admin.start();
    admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, queueCount, queueCount));
    admin.shutdown();
    DefaultMQProducer producer = new DefaultMQProducer("backlog_producer");
    producer.setNamesrvAddr(nameServer);
    producer.start();
    List<MessageQueue> queues = queuesOf(producer, topic, queueCount);
    List<Message> batch = new ArrayList<>(BATCH);
    Random random = new Random(1);
    byte[][] bodies = new byte[BODIES][asked.number("body_bytes")];
    for (byte[] body : bodies) {
      random.nextBytes(body);
    }
    for (int sent = 0; sent < count; sent += BATCH) {
      batch.clear();
      for (int number = 0; number < BATCH; number++) {
        batch.add(new Message(topic, bodies[number % BODIES]));
      }
      producer.send(batch, queues.get(sent / BATCH % queueCount));
    }
    producer.shutdown();
    return "{}";
  }

  /** A broker tells its name server of a topic after it has made it. */
  private static List<MessageQueue> queuesOf(DefaultMQProducer producer, String topic, int count)
      throws Exception {
    for (int tries = 0; ; tries++) {
      try {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        if (queues.size() == count) {
          return queues;
        }
      } catch (Exception error) {
        if (tries > ROUTE_TRIES_MAX) {
          throw error;
        }
      }
      Thread.sleep(100);
    }
  }

  /** Has so many groups read from the begin, until the process ends; counts by second. */
  private void lag(Asked asked) {
    for (int group = 0; group < asked.number("groups"); group++) {
      String name = "lag-" + ProcessHandle.current().pid() + "-" + group;
      start(() -> readAll(asked.text("topic"), name, asked.flag("at_once")));
    }
    start(
        () -> {
          for (long before = 0; !stopped; ) {
            Thread.sleep(1000);
            long now = read.sum();
            synchronized (counts) {
              counts.add(now - before);
            }
            before = now;
          }
        });
  }

  private interface Work {
    void run() throws Exception;
  }

  private static void start(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
              }
            });
    thread.setDaemon(true);
    thread.start();
  }

  private void readAll(String topic, String group, boolean atOnce) throws Exception {
    DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
    consumer.setNamesrvAddr(nameServer);
    consumer.setInstanceName(group);
    consumer.setPullBatchSize(PULL_BATCH);
    consumer.setAutoCommit(true);
    consumer.start();
    List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
    queues.sort(Comparator.comparingInt(MessageQueue::getQueueId));
    if (atOnce) {
      read(consumer, queues);
    } else {
      for (MessageQueue queue : queues) {
        read(consumer, List.of(queue));
      }
    }
    consumer.shutdown();
  }

  private void read(DefaultLitePullConsumer consumer, Collection<MessageQueue> queues)
      throws Exception {
    consumer.assign(queues);
    for (MessageQueue queue : queues) {
      consumer.seekToBegin(queue);
    }
    for (int empty = 0; !stopped && empty < EMPTY_POLLS_MAX; ) {
      int count = consumer.poll(POLL_MS).size();
      read.add(count);
      empty = count == 0 ? empty + 1 : 0;
    }
  }
}
