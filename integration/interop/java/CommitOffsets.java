import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Is a consumer group that is done with the first messages of each queue of a topic.
 *
 * <p>Arguments: name server, topic, group, messages of each queue. Prints {"queues":n}.
 */
public final class CommitOffsets {
  public static void main(String[] arguments) {
    try {
      run(arguments);
      System.exit(0);
    } catch (Exception error) {
      // The client's threads would keep the process alive for ever.
      error.printStackTrace();
      System.exit(1);
    }
  }

  private static void run(String[] arguments) throws Exception {
    DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(arguments[2]);
    consumer.setNamesrvAddr(arguments[0]);
    consumer.start();
    Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(arguments[1]);
    for (MessageQueue queue : queues) {
      // The broker makes the group when it first asks for messages.
      consumer.pull(queue, "*", 0, 1);
      // At once, at the broker: nothing is left to a timer.
      consumer
          .getDefaultMQPullConsumerImpl()
          .updateConsumeOffsetToBroker(queue, Long.parseLong(arguments[3]), false);
    }
    System.out.println("{\"queues\":" + queues.size() + "}");
    System.out.flush();
    consumer.shutdown();
  }
}
