import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * Judges messages by SQL92 conditions with RocketMQ's own filter module, as its broker does: what
 * throws or gives no truth does not match.
 *
 * <p>Reads lines of UTF-8: "condition" and a text, then for each message "message" and names and
 * values in turn, all parts in hexadecimal and parted by blanks. Prints for each condition
 * {"verdict":"refused"} or {"verdict":"10..."}, a digit a message.
 */
public final class JudgeConditions {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    BooleanExpression expression = null;
    StringBuilder verdict = null;
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split(" ");
      if (parts[0].equals("condition")) {
        print(verdict);
        try {
          expression = SelectorParser.parse(parts.length > 1 ? text(parts[1]) : "");
          verdict = new StringBuilder();
        } catch (MQFilterException refused) {
          expression = null;
          verdict = new StringBuilder("refused");
        }
      } else if (expression != null) {
        verdict.append(matches(expression, parts) ? '1' : '0');
      }
    }
    print(verdict);
  }

  private static void print(StringBuilder verdict) {
    if (verdict != null) {
      System.out.println("{\"verdict\":\"" + verdict + "\"}");
    }
  }

  private static boolean matches(BooleanExpression expression, String[] parts) {
    Map<String, Object> properties = new HashMap<>();
    for (int i = 1; i + 1 < parts.length; i += 2) {
      properties.put(text(parts[i]), text(parts[i + 1]));
    }
    EvaluationContext context =
        new EvaluationContext() {
          @Override
          public Object get(String name) {
            return properties.get(name);
          }

          @Override
          public Map<String, Object> keyValues() {
            return properties;
          }
        };
    try {
      return Boolean.TRUE.equals(expression.evaluate(context));
    } catch (Throwable incomparable) {
      return false;
    }
  }

  private static String text(String hexadecimal) {
    byte[] octets = new byte[hexadecimal.length() / 2];
    for (int i = 0; i < octets.length; i++) {
      octets[i] = (byte) Integer.parseInt(hexadecimal.substring(2 * i, 2 * i + 2), 16);
    }
    return new String(octets, StandardCharsets.UTF_8);
  }
}
