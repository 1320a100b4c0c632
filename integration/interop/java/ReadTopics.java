import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads every message of the named topics from a RocketMQ broker and prints one line of JSON each.
 *
 * <p>Arguments: name server, then topics. A last line {"end":true} says that all was read.
 */
public final class ReadTopics {
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
    DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("interop_reader");
    consumer.setNamesrvAddr(arguments[0]);
    consumer.start();
    StringBuilder out = new StringBuilder();
    for (int i = 1; i < arguments.length; i++) {
      for (MessageQueue queue : queuesOf(consumer, arguments[i])) {
        readQueue(consumer, queue, out);
      }
    }
    System.out.print(out);
    System.out.println("{\"end\":true}");
    System.out.flush();
    consumer.shutdown();
  }

  /** A broker listens before its topics are known to the name server. */
  private static Collection<MessageQueue> queuesOf(DefaultMQPullConsumer consumer, String topic)
      throws Exception {
    for (int attempt = 0; ; attempt++) {
      try {
        return consumer.fetchSubscribeMessageQueues(topic);
      } catch (MQClientException error) {
        if (attempt == 60) {
          throw error;
        }
        Thread.sleep(500);
      }
    }
  }

  private static void readQueue(DefaultMQPullConsumer consumer, MessageQueue queue, StringBuilder out)
      throws Exception {
    long position = consumer.minOffset(queue);
    long end = consumer.maxOffset(queue);
    while (position < end) {
      PullResult result = consumer.pull(queue, "*", position, 32);
      if (result.getPullStatus() == PullStatus.OFFSET_ILLEGAL) {
        throw new IllegalStateException(queue + " at " + position + ": " + result);
      }
      List<MessageExt> found = result.getMsgFoundList();
      if (found != null) {
        for (MessageExt message : found) {
          print(queue, message, out);
        }
      }
      position = result.getNextBeginOffset();
    }
  }

  private static void print(MessageQueue queue, MessageExt message, StringBuilder out) {
    out.append("{\"topic\":").append(quoted(message.getTopic()));
    out.append(",\"queue_id\":").append(queue.getQueueId());
    out.append(",\"queue_offset\":").append(message.getQueueOffset());
    out.append(",\"commit_log_offset\":").append(message.getCommitLogOffset());
    out.append(",\"flag\":").append(message.getFlag());
    out.append(",\"born_timestamp\":").append(message.getBornTimestamp());
    out.append(",\"store_timestamp\":").append(message.getStoreTimestamp());
    StringBuilder hex = new StringBuilder();
    for (byte b : message.getBody()) {
      hex.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
    }
    out.append(",\"body\":\"").append(hex).append("\",\"properties\":{");
    String separator = "";
    for (Map.Entry<String, String> pair : new TreeMap<>(message.getProperties()).entrySet()) {
      out.append(separator).append(quoted(pair.getKey())).append(':').append(quoted(pair.getValue()));
      separator = ",";
    }
    out.append("}}\n");
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c < 32 || c > 126 || c == '"' || c == '\\') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }
}
