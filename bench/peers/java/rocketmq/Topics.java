import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The topics of a leg: on the broker, and known to the producers before anything is timed. */
public final class Topics {
  public static final int QUEUE_COUNT = 4;
  private static final int TRIES_MAX = 100;
  private static final long REQUEST_MS_MAX = 10_000;

  private final DefaultMQAdminExt admin;
  private final List<DefaultMQProducer> producers;
  private final String nameServer;
  private final String broker;
  private List<String> many = List.of();

  public Topics(
      DefaultMQAdminExt admin,
      List<DefaultMQProducer> producers,
      String nameServer,
      String broker) {
    this.admin = admin;
    this.producers = producers;
    this.nameServer = nameServer;
    this.broker = broker;
  }

  /** The topics of a load: its own, or so many with a number behind it. */
  public static List<String> of(Asked asked) {
    String topic = asked.text("topic");
    int count = asked.number("topics");
    if (count <= 1) {
      return List.of(topic);
    }
    List<String> names = new ArrayList<>(count);
    for (int number = 0; number < count; number++) {
      names.add(topic + "-" + number);
    }
    return names;
  }

  /** Makes topics; of many, those of the leg before are deleted, unless they are the same ones. */
  public void make(List<String> topics) throws Exception {
    if (topics.equals(many)) {
      return;
    }
    for (DefaultMQProducer producer : producers) {
      // Else it would look for them every 30 s.
      producer.getDefaultMQProducerImpl().getTopicPublishInfoTable().keySet().removeAll(many);
    }
    for (String topic : many) {
      admin.deleteTopicInBroker(Set.of(broker), topic);
      admin.deleteTopicInNameServer(Set.of(nameServer), topic);
    }
    many = topics.size() > 1 ? topics : List.of();
    List<TopicConfig> configs = new ArrayList<>(topics.size());
    for (String topic : topics) {
      configs.add(new TopicConfig(topic, QUEUE_COUNT, QUEUE_COUNT));
    }
    admin.createAndUpdateTopicConfigList(broker, configs);
    for (String topic : topics) {
      waitForRoute(topic);
      for (DefaultMQProducer producer : producers) {
        DefaultMQProducerImpl inside = producer.getDefaultMQProducerImpl();
        inside.getmQClientFactory().updateTopicRouteInfoFromNameServer(topic);
      }
    }
  }

  /** Has a group pop what these topics have, instead of owning their queues. */
  public void letPop(List<String> topics, String group) throws Exception {
    for (String topic : topics) {
      admin.setMessageRequestMode(
          broker, topic, group, MessageRequestMode.POP, 0, REQUEST_MS_MAX);
    }
  }

  /** Messages that consumers would be told of. */
  public long readyCount(List<String> topics) throws Exception {
    long count = 0;
    for (String topic : topics) {
      for (TopicOffset offset : admin.examineTopicStats(topic).getOffsetTable().values()) {
        count += offset.getMaxOffset() - offset.getMinOffset();
      }
    }
    return count;
  }

  /** What the broker has in its log, of all topics, and bytes of it that consumers do not see yet. */
  public String stored() throws Exception {
    Map<String, String> said = admin.fetchBrokerRuntimeStats(broker).getTable();
    return "{\"count\": " + said.get("msgPutTotalTodayNow") + ", \"behind_bytes\": "
        + said.get("dispatchBehindBytes") + "}";
  }

  /** A broker tells its name server of a topic after it has made it. */
  private void waitForRoute(String topic) throws Exception {
    for (int tries = 0; ; tries++) {
      try {
        if (producers.get(0).fetchPublishMessageQueues(topic).size() == QUEUE_COUNT) {
          return;
        }
      } catch (Exception error) {
        if (tries > TRIES_MAX) {
          throw error;
        }
      }
      Thread.sleep(100);
    }
  }
}
