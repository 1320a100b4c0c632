import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages of one delay level to a RocketMQ broker, their bodies a word and a number.
 *
 * <p>Arguments: name server, topic, word, number of messages, delay level; with level 0 also the
 * delay in milliseconds. Prints {"sent":n}.
 */
public final class SendDelayed {
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
    int count = Integer.parseInt(arguments[3]);
    DefaultMQProducer producer = new DefaultMQProducer("interop_delayed");
    producer.setNamesrvAddr(arguments[0]);
    producer.setSendMsgTimeout(20_000);
    producer.start();
    for (int i = 0; i < count; i++) {
      Message message = new Message(arguments[1], "red", "key" + i, (arguments[2] + i).getBytes());
      if (arguments[4].equals("0")) {
        message.setDelayTimeMs(Long.parseLong(arguments[5]));
      } else {
        message.setDelayTimeLevel(Integer.parseInt(arguments[4]));
      }
      for (int attempt = 0; ; attempt++) {
        try {
          if (producer.send(message).getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException("not sent");
          }
          break;
        } catch (Exception error) {
          // A broker listens before its topics are known to the name server.
          if (attempt == 60) {
            throw error;
          }
          Thread.sleep(500);
        }
      }
    }
    System.out.println("{\"sent\":" + count + "}");
    System.out.flush();
    producer.shutdown();
  }
}
