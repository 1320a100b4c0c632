import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * RocketMQ's Java client as a driver: the loops of its own benchmark tools, for a number of messages
 * instead of a time, with bodies that are known again and a process that stays warm.
 *
 * <p>Arguments: name server, broker. Reads a JSON object a line, answers with one.
 */
public final class RocketmqDriver {
  private static final int POOL_SIZE = 4096;
  private static final int QUEUE_COUNT = 4;
  private static final int CONSUMER_THREADS = 20;
  private static final int LISTENER_BATCH = 32;
  private static final int FAILURES_MAX = 1000;
  private static final long SILENCE_S_MAX = 20;

  private final String nameServer;
  private final String broker;
  private final DefaultMQAdminExt admin = new DefaultMQAdminExt();
  private final DefaultMQProducer producer = new DefaultMQProducer("bench_producer");
  private byte[][] bodies = new byte[0][];
  private int groups;

  private RocketmqDriver(String nameServer, String broker) {
    this.nameServer = nameServer;
    this.broker = broker;
  }

  public static void main(String[] arguments) {
    // As the benchmark tools of RocketMQ do.
    System.setProperty(RemotingCommand.SERIALIZE_TYPE_PROPERTY, SerializeType.ROCKETMQ.name());
    try {
      new RocketmqDriver(arguments[0], arguments[1]).serve();
      System.exit(0);
    } catch (Exception error) {
      // The client's threads would keep the process alive for ever.
      error.printStackTrace();
      System.exit(1);
    }
  }

  private void serve() throws Exception {
    admin.setNamesrvAddr(nameServer);
    admin.start();
    producer.setNamesrvAddr(nameServer);
    producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
    producer.start();
    BufferedReader asked =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = asked.readLine(); line != null; line = asked.readLine()) {
      String answer;
      try {
        answer = answer(line);
      } catch (Exception error) {
        error.printStackTrace();
        answer = "{\"error\": \"" + error.toString().replaceAll("[\"\\\\\\n\\r]", " ") + "\"}";
      }
      System.out.println("\n" + answer);
      System.out.flush();
    }
  }

  private String answer(String line) throws Exception {
    String topic = text(line, "topic");
    int count = number(line, "count");
    int workers = number(line, "in_flight");
    boolean single = text(line, "shape").equals("singles");
    switch (text(line, "do")) {
      case "prepare_produce":
        admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, QUEUE_COUNT, QUEUE_COUNT));
        bodies = makeBodies(number(line, "body_bytes"));
        waitForRoute(topic);
        return "{}";
      case "produce":
        return produce(topic, count, workers, single ? 1 : number(line, "batch"));
      case "prepare_consume":
        return "{}";
      default:
        return consume(topic, count);
    }
  }

  /** A broker tells its name server of a topic after it has made it. */
  private void waitForRoute(String topic) throws Exception {
    for (int tries = 0; ; tries++) {
      try {
        if (producer.fetchPublishMessageQueues(topic).size() == QUEUE_COUNT) {
          return;
        }
      } catch (Exception error) {
        if (tries > 100) {
          throw error;
        }
      }
      Thread.sleep(100);
    }
  }

  private String produce(String topic, int count, int workers, int batch) throws Exception {
    AtomicInteger next = new AtomicInteger();
    LongAdder acknowledged = new LongAdder();
    LongAdder failures = new LongAdder();
    List<Thread> threads = new ArrayList<>();
    long begin = System.nanoTime();
    for (int worker = 0; worker < workers; worker++) {
      Thread thread =
          new Thread(
              () -> {
                for (int first = next.getAndAdd(batch);
                    first < count;
                    first = next.getAndAdd(batch)) {
                  int size = Math.min(batch, count - first);
                  while (!send(topic, first, size, batch == 1)) {
                    failures.add(size);
                    if (failures.sum() > (long) FAILURES_MAX * batch) {
                      return;
                    }
                  }
                  acknowledged.add(size);
                }
              });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    double seconds = (System.nanoTime() - begin) / 1e9;
    return "{\"count\": " + acknowledged.sum() + ", \"seconds\": " + seconds + ", \"failures\": "
        + failures.sum() + "}";
  }

  private boolean send(String topic, int first, int size, boolean single) {
    try {
      if (single) {
        Message message = new Message(topic, bodies[first % POOL_SIZE]);
        return producer.send(message).getSendStatus() == SendStatus.SEND_OK;
      }
      List<Message> messages = new ArrayList<>(size);
      for (int number = first; number < first + size; number++) {
        messages.add(new Message(topic, bodies[number % POOL_SIZE]));
      }
      return producer.send(messages).getSendStatus() == SendStatus.SEND_OK;
    } catch (Exception error) {
      error.printStackTrace();
      return false;
    }
  }

  private String consume(String topic, int count) throws Exception {
    LongAdder received = new LongAdder();
    LongAdder digest = new LongAdder();
    AtomicLong begin = new AtomicLong();
    AtomicLong end = new AtomicLong();
    CountDownLatch whole = new CountDownLatch(count);
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench_" + ++groups + "_" + topic);
    consumer.setNamesrvAddr(nameServer);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.setConsumeThreadMin(CONSUMER_THREADS);
    consumer.setConsumeThreadMax(CONSUMER_THREADS);
    consumer.setConsumeMessageBatchMaxSize(LISTENER_BATCH);
    consumer.subscribe(topic, "*");
    consumer.registerMessageListener(
        (MessageListenerConcurrently)
            (messages, context) -> {
              begin.compareAndSet(0, System.nanoTime());
              CRC32 crc = new CRC32();
              for (MessageExt message : messages) {
                crc.reset();
                crc.update(message.getBody());
                digest.add(crc.getValue());
                received.increment();
                whole.countDown();
              }
              end.accumulateAndGet(System.nanoTime(), Math::max);
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
    consumer.start();
    long before = -1;
    while (!whole.await(SILENCE_S_MAX, TimeUnit.SECONDS) && received.sum() > before) {
      before = received.sum();
    }
    consumer.shutdown();
    double seconds = Math.max(end.get() - begin.get(), 1) / 1e9;
    return "{\"count\": " + received.sum() + ", \"seconds\": " + seconds + ", \"digest\": "
        + Long.toUnsignedString(digest.sum()) + "}";
  }

  private static byte[][] makeBodies(int size) {
    byte[] filling = new byte[size];
    for (int position = 8; position < size; position++) {
      filling[position] = (byte) (position * 31 + 7);
    }
    byte[][] made = new byte[POOL_SIZE][];
    for (int number = 0; number < POOL_SIZE; number++) {
      made[number] = filling.clone();
      ByteBuffer.wrap(made[number]).order(ByteOrder.LITTLE_ENDIAN).putLong(0, number);
    }
    return made;
  }

  private static String text(String line, String name) {
    Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(line);
    return found.find() ? found.group(1) : "";
  }

  private static int number(String line, String name) {
    Matcher found = Pattern.compile("\"" + name + "\": (\\d+)").matcher(line);
    return found.find() ? Integer.parseInt(found.group(1)) : 0;
  }
}
