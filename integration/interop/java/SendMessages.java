import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends seeded messages to a RocketMQ broker: singles, client batches, tags, several keys, delays,
 * and bodies large enough to be compressed.
 *
 * <p>Arguments: name server, topic, number of messages, seed. Prints {"sent":n}.
 */
public final class SendMessages {
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
    String topic = arguments[1];
    int count = Integer.parseInt(arguments[2]);
    Random random = new Random(Long.parseLong(arguments[3]));
    DefaultMQProducer producer = new DefaultMQProducer("interop_writer");
    producer.setNamesrvAddr(arguments[0]);
    producer.setSendMsgTimeout(20_000);
    producer.start();
    List<MessageQueue> queues = queuesOf(producer, topic);
    int sent = 0;
    while (sent < count) {
      MessageQueue queue = queues.get(random.nextInt(queues.size()));
      if (sent % 5 == 0 && count - sent >= 4) {
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
          batch.add(message(topic, sent + i, random, false));
        }
        require(producer.send(batch, queue));
        sent += 4;
      } else {
        require(producer.send(message(topic, sent, random, sent % 7 == 0), queue));
        sent += 1;
      }
    }
    System.out.println("{\"sent\":" + sent + "}");
    System.out.flush();
    producer.shutdown();
  }

  /** A broker listens before its topics are known to the name server. */
  private static List<MessageQueue> queuesOf(DefaultMQProducer producer, String topic)
      throws Exception {
    for (int attempt = 0; ; attempt++) {
      try {
        return producer.fetchPublishMessageQueues(topic);
      } catch (MQClientException error) {
        if (attempt == 60) {
          throw error;
        }
        Thread.sleep(500);
      }
    }
  }

  private static Message message(String topic, int number, Random random, boolean large) {
    StringBuilder body = new StringBuilder("message " + number + " ");
    int length = large ? 6000 : 20 + random.nextInt(400);
    while (body.length() < length) {
      body.append((char) ('a' + random.nextInt(26)));
    }
    Message message = new Message(topic, "tag" + number % 3, body.toString().getBytes());
    message.setKeys("key" + number + " shared" + number % 10);
    message.setFlag(number);
    message.putUserProperty("number", Integer.toString(number));
    return message;
  }

  private static void require(SendResult result) {
    if (result.getSendStatus() != SendStatus.SEND_OK) {
      throw new IllegalStateException(result.toString());
    }
  }
}
