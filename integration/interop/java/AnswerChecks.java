import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Lives as a producer of a group, and answers what a RocketMQ broker asks about transactions:
 * committed when the body ends with an even digit, else rolled back; or that it does not know.
 *
 * <p>Arguments: name server, topic, group, "decide" or "unknown", a number of bodies, seconds. It
 * ends so long after it was asked about so many, and prints for each body how often it was asked
 * about: {"body":"...","asked":n}.
 */
public final class AnswerChecks {
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
    boolean decides = arguments[3].equals("decide");
    Map<String, Integer> asked = new ConcurrentSkipListMap<>();
    TransactionMQProducer producer = new TransactionMQProducer(arguments[2]);
    producer.setNamesrvAddr(arguments[0]);
    producer.setTransactionListener(
        new TransactionListener() {
          @Override
          public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.UNKNOW;
          }

          @Override
          public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = new String(message.getBody());
            asked.merge(body, 1, Integer::sum);
            if (!decides) {
              return LocalTransactionState.UNKNOW;
            }
            return (body.charAt(body.length() - 1) - '0') % 2 == 0
                ? LocalTransactionState.COMMIT_MESSAGE
                : LocalTransactionState.ROLLBACK_MESSAGE;
          }
        });
    producer.start();
    // It sends nothing, so that it has to look by itself where to say that it lives.
    MQClientInstance client = producer.getDefaultMQProducerImpl().getMqClientFactory();
    int wanted = Integer.parseInt(arguments[4]);
    long linger = 1000 * Long.parseLong(arguments[5]);
    long giveUp = System.currentTimeMillis() + 240_000;
    long enoughAt = Long.MAX_VALUE;
    while (System.currentTimeMillis() < Math.min(giveUp, enoughAt)) {
      try {
        client.updateTopicRouteInfoFromNameServer(arguments[1]);
        client.sendHeartbeatToAllBrokerWithLock();
      } catch (RuntimeException error) {
        System.err.println("tried again: " + error);
      }
      if (enoughAt == Long.MAX_VALUE && asked.size() >= wanted) {
        enoughAt = System.currentTimeMillis() + linger;
      }
      Thread.sleep(500);
    }
    asked.forEach(
        (body, count) -> System.out.println("{\"body\":\"" + body + "\",\"asked\":" + count + "}"));
    System.out.flush();
    producer.shutdown();
  }
}
