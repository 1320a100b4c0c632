import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

/**
 * Open loop: messages that are sent when they are due, and how long after that each was heard; as
 * drivers/scheduled.py does it.
 */
public final class Exchange {
  /** Sends one message without waiting, to be delivered so many milliseconds later. */
  public interface Sender {
    void send(byte[] body, long laterMs) throws Exception;
  }

  private static final int STAMP_BYTES = 16;
  private static final int BURSTS_PER_S_MAX = 1000;
  private static final int SPREAD = 7919;
  private static final long SILENCE_S_MAX = 20;

  private final int count;
  private final int warmUpCount;
  private final int burstSize;
  private final long burstNs;
  private final long delayMs;
  private final byte[] filling;
  private final long[] tookNs;
  private final long[] answeredNs;
  private final AtomicIntegerArray come;
  private final LongAdder altered = new LongAdder();
  private final LongAdder refused = new LongAdder();
  private final CountDownLatch answered;
  private final CountDownLatch heard;
  private volatile long begin;

  public Exchange(Asked asked) {
    count = asked.number("count");
    warmUpCount = asked.number("warm_up_count");
    int rate = asked.number("rate");
    burstSize = Math.max(1, rate / BURSTS_PER_S_MAX);
    burstNs = 1_000_000_000L * burstSize / rate;
    delayMs = asked.number("delay_ms");
    filling = new byte[asked.number("body_bytes") - STAMP_BYTES];
    for (int position = 0; position < filling.length; position++) {
      filling[position] = (byte) ((position + STAMP_BYTES) * 31 + 7);
    }
    tookNs = new long[count];
    answeredNs = new long[count];
    Arrays.fill(answeredNs, -1);
    Arrays.fill(tookNs, -1);
    come = new AtomicIntegerArray(count);
    answered = new CountDownLatch(count);
    heard = new CountDownLatch(count);
  }

  /** A send of a body has its acknowledgement, which counts from when it was due. */
  public void acknowledged(byte[] body) {
    int number = (int) ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN).getLong(0);
    answeredNs[number] = Math.max(System.nanoTime() - begin - number / burstSize * burstNs, 0);
    answered.countDown();
  }

  /** A send was refused, or nobody knows what became of it. */
  public void refused() {
    refused.increment();
    answered.countDown();
  }

  /** A message came. */
  public void take(byte[] body, long atNs) {
    ByteBuffer stamp = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
    long number = stamp.getLong(0);
    boolean whole =
        body.length == STAMP_BYTES + filling.length
            && Arrays.equals(body, STAMP_BYTES, body.length, filling, 0, filling.length);
    if (!whole || number < 0 || number >= count) {
      altered.increment();
    } else if (come.getAndSet((int) number, 1) == 0) {
      tookNs[(int) number] = Math.max(atNs - stamp.getLong(8), 0);
      heard.countDown();
    }
  }

  /** Sends all when they are due, then waits for every outcome. */
  public String send(Sender sender) throws Exception {
    begin = System.nanoTime() + 50_000_000;
    long late = 0;
    for (int burst = 0; burst < count / burstSize; burst++) {
      long due = begin + burst * burstNs;
      for (long rest = due - System.nanoTime(); rest > 0; rest = due - System.nanoTime()) {
        LockSupport.parkNanos(rest);
      }
      late = Math.max(late, System.nanoTime() - due);
      for (int number = burst * burstSize; number < (burst + 1) * burstSize; number++) {
        long later = delayMs == 0 ? 0 : delayMs + (long) number * SPREAD % delayMs;
        long from = later == 0 ? due : System.nanoTime() + later * 1_000_000;
        try {
          sender.send(body(number, from), later);
        } catch (Exception error) {
          error.printStackTrace();
          refused();
        }
      }
    }
    if (!answered.await(SILENCE_S_MAX, TimeUnit.SECONDS)) {
      throw new IllegalStateException(answered.getCount() + " sends have no outcome");
    }
    double seconds = (System.nanoTime() - begin) / 1e9;
    return "{\"count\": " + (count - refused.sum()) + ", \"failures\": " + refused.sum()
        + ", \"seconds\": " + seconds + ", \"late_ms\": " + late / 1e6
        + ", \"acknowledged\": " + percentiles(answeredNs) + "}";
  }

  /** What was heard, once all is, or nothing more comes. */
  public String heard() throws InterruptedException {
    long before = -1;
    long silentSince = System.nanoTime();
    // What was refused does not come.
    while (heard.getCount() > refused.sum() && !heard.await(50, TimeUnit.MILLISECONDS)) {
      long now = System.nanoTime();
      if (heard.getCount() != before) {
        before = heard.getCount();
        silentSince = now;
      } else if (now - silentSince > SILENCE_S_MAX * 1_000_000_000) {
        break;
      }
    }
    return "{\"count\": " + (count - heard.getCount()) + ", \"altered\": " + altered.sum()
        + ", \"percentiles\": " + percentiles(tookNs) + "}";
  }

  /** Percentiles of all behind the warm-up that have a time. */
  private String percentiles(long[] nanoseconds) {
    long[] sorted =
        Arrays.stream(nanoseconds, warmUpCount, count).filter(took -> took >= 0).sorted().toArray();
    return "{\"p50\": " + at(sorted, 0.5) + ", \"p99\": " + at(sorted, 0.99) + ", \"p99.9\": "
        + at(sorted, 0.999) + ", \"max\": " + at(sorted, 1) + "}";
  }

  private byte[] body(long number, long from) {
    byte[] made = new byte[STAMP_BYTES + filling.length];
    ByteBuffer.wrap(made).order(ByteOrder.LITTLE_ENDIAN).putLong(number).putLong(from).put(filling);
    return made;
  }

  /** Milliseconds that some message took; of two, the worse. */
  private static double at(long[] sorted, double share) {
    int length = sorted.length;
    return length == 0 ? -1 : sorted[(int) Math.ceil(share * (length - 1))] / 1e6;
  }
}
