import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.body.BrokerReplicasInfo;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * RocketMQ's Java client as a driver: the loops of its own benchmark tools, for a number of messages
 * instead of a time, with bodies that are known again and a process that stays warm.
 *
 * <p>Arguments: name server, broker. Reads a JSON object a line, answers with one.
 */
public final class RocketmqDriver {
  private static final String BROKER = "broker-java";
  private static final int CONSUMER_THREADS = 20;
  private static final int LISTENER_BATCH = 32;
  private static final int RECEIVERS = 4;
  private static final long REFUSED_PULL_WAIT_MS = 100;
  private static final long SHUTDOWN_MS_MAX = 5000;
  private static final int FAILURES_MAX = 1000;
  private static final long SILENCE_S_MAX = 20;

  private final String nameServer;
  private final DefaultMQAdminExt admin = new DefaultMQAdminExt();
  private final DefaultMQProducer producer = new DefaultMQProducer("bench_producer");
  private final TransactionMQProducer transactionProducer =
      new TransactionMQProducer("bench_transactions");
  private final Topics topicsOfLeg;
  private byte[][] bodies = new byte[0][];
  private int groups;
  private Exchange exchange;
  private DefaultMQPushConsumer listening;

  private RocketmqDriver(String nameServer, String broker) {
    this.nameServer = nameServer;
    topicsOfLeg =
        new Topics(admin, List.of(producer, transactionProducer), nameServer, broker);
  }

  public static void main(String[] arguments) {
    // As the benchmark tools of RocketMQ do. Who receives by POP asks for its default, JSON: the other
    // form has 16 bits for the number of a request, and those of POP have more.
    if (System.getProperty(RemotingCommand.SERIALIZE_TYPE_PROPERTY) == null) {
      System.setProperty(RemotingCommand.SERIALIZE_TYPE_PROPERTY, SerializeType.ROCKETMQ.name());
    }
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
    transactionProducer.setNamesrvAddr(nameServer);
    transactionProducer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
    transactionProducer.setTransactionListener(new Committing());
    transactionProducer.start();
    Asked.serve(this::answer);
  }

  private String answer(Asked asked) throws Exception {
    String topic = asked.text("topic");
    switch (asked.text("do")) {
      case "prepare_produce":
        topicsOfLeg.make(Topics.of(asked));
        bodies = Bodies.ofSize(asked.number("body_bytes"));
        return "{}";
      case "produce":
        return produce(asked);
      case "send_until_stored":
        return sendUntilStored(topic, asked.number("body_bytes"));
      case "sync_state":
        return syncState(asked.text("controller"));
      case "stored":
        return topicsOfLeg.stored();
      case "prepare_consume":
        return "{}";
      case "consume":
        return consume(asked);
      case "listen":
        exchange = new Exchange(asked);
        listen(topic);
        return "{}";
      case "send_scheduled":
        return exchange.send((body, later) -> sendNow(topic, body, later));
      case "heard":
        String heard = exchange.heard();
        listening.shutdown();
        return heard;
      default:
        throw new IllegalArgumentException("not known: " + asked.text("do"));
    }
  }

  /** Every local transaction succeeds, at once. */
  private static final class Committing implements TransactionListener {
    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object unused) {
      return LocalTransactionState.COMMIT_MESSAGE;
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
      return LocalTransactionState.COMMIT_MESSAGE;
    }
  }

  private String produce(Asked asked) throws Exception {
    List<String> names = Topics.of(asked);
    String shape = asked.text("shape");
    int count = asked.number("count");
    int workers = asked.number("in_flight");
    int batch = shape.equals("batches") ? asked.number("batch") : 1;
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
                  // To all topics in turn, whoever sends next.
                  String topic = names.get(first / batch % names.size());
                  while (!send(topic, first, size, shape)) {
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
    String ready = "";
    if (asked.flag("until_ready")) {
      while (topicsOfLeg.readyCount(names) < acknowledged.sum()) {
        Thread.sleep(10);
      }
      ready = ", \"ready_s\": " + (System.nanoTime() - begin) / 1e9;
    }
    return "{\"count\": " + acknowledged.sum() + ", \"seconds\": " + seconds + ", \"failures\": "
        + failures.sum() + ready + "}";
  }

  /** Sends one message again and again until it is acknowledged. */
  private String sendUntilStored(String topic, int bodyBytes) throws Exception {
    Message message = new Message(topic, new byte[bodyBytes]);
    for (int failures = 0; ; failures++) {
      try {
        if (producer.send(message).getSendStatus() == SendStatus.SEND_OK) {
          return "{\"failures\": " + failures + "}";
        }
      } catch (MQClientException | RemotingException | MQBrokerException error) {
        System.err.println(error);
      }
      Thread.sleep(10);
    }
  }

  /** How many brokers of a set are in sync, and who is master; nobody, while there is no set. */
  private String syncState(String controller) throws Exception {
    for (BrokerReplicasInfo.ReplicasInfo set :
        admin.getInSyncStateData(controller, List.of(BROKER)).getReplicasInfoTable().values()) {
      return "{\"in_sync\": " + set.getInSyncReplicas().size() + ", \"primary\": \""
          + set.getMasterAddress() + "\"}";
    }
    return "{\"in_sync\": 0, \"primary\": \"\"}";
  }

  private boolean send(String topic, int first, int size, String shape) {
    try {
      Message single = new Message(topic, bodies[first % bodies.length]);
      if (shape.equals("transactions")) {
        return transactionProducer.sendMessageInTransaction(single, null).getSendStatus()
            == SendStatus.SEND_OK;
      }
      if (shape.equals("singles")) {
        return producer.send(single).getSendStatus() == SendStatus.SEND_OK;
      }
      List<Message> messages = new ArrayList<>(size);
      for (int number = first; number < first + size; number++) {
        messages.add(new Message(topic, bodies[number % bodies.length]));
      }
      return producer.send(messages).getSendStatus() == SendStatus.SEND_OK;
    } catch (Exception error) {
      error.printStackTrace();
      return false;
    }
  }

  /** Sends one on its schedule: whoever sends so waits for no answer. */
  private void sendNow(String topic, byte[] body, long laterMs) throws Exception {
    Exchange sending = exchange;
    Message message = new Message(topic, body);
    if (laterMs > 0) {
      message.setDelayTimeMs(laterMs);
    }
    producer.send(
        message,
        new SendCallback() {
          @Override
          public void onSuccess(SendResult result) {
            if (result.getSendStatus() == SendStatus.SEND_OK) {
              sending.acknowledged(body);
            } else {
              sending.refused();
            }
          }

          @Override
          public void onException(Throwable error) {
            error.printStackTrace();
            sending.refused();
          }
        });
  }

  /** Listens with a new group; returns when it has its queues. */
  private void listen(String topic) throws Exception {
    Exchange taking = exchange;
    listening =
        consumer(
            newGroup(topic),
            List.of(topic),
            (messages, context) -> {
              long now = System.nanoTime();
              for (MessageExt message : messages) {
                taking.take(message.getBody(), now);
              }
              return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            },
            LISTENER_BATCH);
    start(listening, List.of(topic));
  }

  /**
   * Starts a consumer; returns when it has its queues and the broker knows its subscription.
   *
   * <p>A consumer that gets its queues changes the version of its subscription and tells the broker,
   * unless another heartbeat is under way: then the broker is told by the next one only, 30 s later,
   * and refuses every pull until then. So it is told here.
   */
  private static void start(DefaultMQPushConsumer consumer, List<String> topics)
      throws Exception {
    DefaultMQPushConsumerImpl inside = consumer.getDefaultMQPushConsumerImpl();
    Map<String, SubscriptionData> subscriptions = inside.getRebalanceImpl().getSubscriptionInner();
    Map<String, Long> subscribed = new HashMap<>();
    for (String topic : topics) {
      subscribed.put(topic, subscriptions.get(topic).getSubVersion());
    }
    consumer.start();
    while (!hasQueues(inside.getRebalanceImpl(), topics.size())
        || topics.stream()
            .anyMatch(topic -> subscriptions.get(topic).getSubVersion() == subscribed.get(topic))
        || !inside.getmQClientFactory().sendHeartbeatToAllBrokerWithLock()) {
      Thread.sleep(20);
    }
  }

  /**
   * Whether a consumer has all queues. One that receives gets one entry for all queues that a broker
   * has of a topic: it asks for their messages together.
   */
  private static boolean hasQueues(RebalanceImpl given, int topicCount) {
    return given.getProcessQueueTable().size() >= Topics.QUEUE_COUNT * topicCount
        || given.getPopProcessQueueTable().size() >= topicCount;
  }

  /** Starts, or ends, the consumers of all groups at the same time. */
  private static void each(List<DefaultMQPushConsumer> consumers, Step step) throws Exception {
    List<Thread> threads = new ArrayList<>();
    for (DefaultMQPushConsumer consumer : consumers) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  step.take(consumer);
                } catch (Exception error) {
                  // Its messages will be lacking.
                  error.printStackTrace();
                }
              });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private interface Step {
    void take(DefaultMQPushConsumer consumer) throws Exception;
  }

  private String consume(Asked asked) throws Exception {
    List<String> topics = Topics.of(asked);
    int atOnce = asked.text("shape").equals("each") ? 1 : LISTENER_BATCH;
    boolean receiving = asked.text("shape").equals("receive");
    int count = asked.number("count");
    int groupCount = asked.number("groups");
    LongAdder received = new LongAdder();
    LongAdder digest = new LongAdder();
    AtomicLong begin = new AtomicLong();
    AtomicLong end = new AtomicLong();
    CountDownLatch whole = new CountDownLatch(count * groupCount);
    MessageListenerConcurrently listener =
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
        };
    List<DefaultMQPushConsumer> consumers = new ArrayList<>();
    for (int number = 0; number < groupCount; number++) {
      String group = groupOf(asked);
      if (receiving) {
        topicsOfLeg.letPop(topics, group);
      }
      for (int member = 0; member < (receiving ? RECEIVERS : 1); member++) {
        DefaultMQPushConsumer consumer = consumer(group, topics, listener, atOnce);
        // The broker says what is received so; else the client owns queues whatever the mode.
        consumer.setClientRebalance(!receiving);
        consumers.add(consumer);
      }
    }
    each(consumers, consumer -> start(consumer, topics));
    long before = -1;
    while (!whole.await(SILENCE_S_MAX, TimeUnit.SECONDS) && received.sum() > before) {
      before = received.sum();
    }
    each(consumers, DefaultMQPushConsumer::shutdown);
    double seconds = Math.max(end.get() - begin.get(), 1) / 1e9;
    return "{\"count\": " + received.sum() + ", \"seconds\": " + seconds + ", \"digest\": "
        + Long.toUnsignedString(digest.sum()) + "}";
  }

  /** The group that goes on where it was, if one is named; else a new one. */
  private String groupOf(Asked asked) {
    String lasting = asked.text("group");
    return lasting.isEmpty() ? newGroup(asked.text("topic")) : lasting;
  }

  private String newGroup(String topic) {
    return "bench_" + ++groups + "_" + topic;
  }

  /** A consumer of a group, a new one from the first message, so many of them at most in a call. */
  private DefaultMQPushConsumer consumer(
      String group, List<String> topics, MessageListenerConcurrently listener, int atOnce)
      throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(nameServer);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.setConsumeThreadMin(CONSUMER_THREADS);
    consumer.setConsumeThreadMax(CONSUMER_THREADS);
    consumer.setConsumeMessageBatchMaxSize(atOnce);
    for (String topic : topics) {
      consumer.subscribe(topic, "*");
    }
    consumer.registerMessageListener(listener);
    // The last call has returned before the group's offsets are kept.
    consumer.setAwaitTerminationMillisWhenShutdown(SHUTDOWN_MS_MAX);
    // A pull that was refused because of the subscription's version waits for 3 s by default.
    consumer.getDefaultMQPushConsumerImpl().setPullTimeDelayMillsWhenException(REFUSED_PULL_WAIT_MS);
    return consumer;
  }
}
