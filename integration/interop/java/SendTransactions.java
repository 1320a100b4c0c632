import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends half messages to a RocketMQ broker: those of the word "done" are committed, those of
 * "undone" rolled back, all others left without an outcome.
 *
 * <p>Arguments: name server, topic, group, then words with a number, such as done:4. Prints
 * {"sent":n}.
 */
public final class SendTransactions {
  private static final Map<String, LocalTransactionState> STATES =
      Map.of(
          "done", LocalTransactionState.COMMIT_MESSAGE,
          "undone", LocalTransactionState.ROLLBACK_MESSAGE);

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
    TransactionMQProducer producer = new TransactionMQProducer(arguments[2]);
    producer.setNamesrvAddr(arguments[0]);
    producer.setSendMsgTimeout(20_000);
    producer.setTransactionListener(
        new TransactionListener() {
          @Override
          public LocalTransactionState executeLocalTransaction(Message message, Object word) {
            return STATES.getOrDefault((String) word, LocalTransactionState.UNKNOW);
          }

          @Override
          public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
          }
        });
    producer.start();
    int sent = 0;
    for (int i = 3; i < arguments.length; i++) {
      String[] part = arguments[i].split(":");
      for (int number = 0; number < Integer.parseInt(part[1]); number++) {
        send(producer, new Message(arguments[1], "red", (part[0] + number).getBytes()), part[0]);
        sent++;
      }
    }
    // How a transaction ended is said without waiting for an answer.
    Thread.sleep(1000);
    System.out.println("{\"sent\":" + sent + "}");
    System.out.flush();
    producer.shutdown();
  }

  /** A broker listens before its topics are known to the name server. */
  private static void send(TransactionMQProducer producer, Message message, String word)
      throws Exception {
    for (int attempt = 0; ; attempt++) {
      try {
        producer.sendMessageInTransaction(message, word);
        return;
      } catch (MQClientException error) {
        if (attempt == 60) {
          throw error;
        }
        Thread.sleep(500);
      }
    }
  }
}
