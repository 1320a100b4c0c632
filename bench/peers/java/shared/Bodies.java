import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Bodies that are known again; as peer_bench/bodies.py makes them. */
public final class Bodies {
  private static final int POOL_SIZE = 4096;

  private Bodies() {}

  /** All of them, which take turns, with so many bytes each. */
  public static byte[][] ofSize(int size) {
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
}
