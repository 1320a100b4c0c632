import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's own tools again and again in one process, so that what is compiled stays so.
 *
 * <p>Reads {"do": "class name", "arguments": ["..."]} a line; answers {"status": 0, "out": "..."}.
 */
public final class RepeatedTool {
  private static final Pattern WORD = Pattern.compile("\"([^\"]*)\"");

  /** A tool that ends the process ends itself only. */
  private static final class ToolEnded extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ToolEnded(int status) {
      super("status " + status, null, false, false);
    }
  }

  /** The first status that the running tool ended with; tools catch what ends them, and go on. */
  private static volatile Integer ended;

  public static void main(String[] unused) throws Exception {
    Exit.Procedure end =
        (status, message) -> {
          ended = ended == null ? status : ended;
          throw new ToolEnded(status);
        };
    Exit.setExitProcedure(end);
    Exit.setHaltProcedure(end);
    PrintStream answers = System.out;
    BufferedReader asked =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = asked.readLine(); line != null; line = asked.readLine()) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
      int status = run(line);
      System.out.flush();
      String text = out.toString(StandardCharsets.UTF_8);
      answers.println("{\"status\": " + status + ", \"out\": \"" + escaped(text) + "\"}");
      answers.flush();
    }
    System.exit(0);
  }

  private static int run(String line) {
    Matcher words = WORD.matcher(line);
    List<String> found = new ArrayList<>();
    while (words.find()) {
      found.add(words.group(1));
    }
    // "do", the class, "arguments", and then the arguments.
    String[] arguments = found.subList(3, found.size()).toArray(new String[0]);
    ended = null;
    try {
      Class.forName(found.get(1)).getMethod("main", String[].class).invoke(null, (Object) arguments);
      return 0;
    } catch (InvocationTargetException error) {
      if (ended != null) {
        return ended;
      }
      error.getCause().printStackTrace();
      return 1;
    } catch (ReflectiveOperationException error) {
      error.printStackTrace();
      return 1;
    }
  }

  private static String escaped(String text) {
    StringBuilder made = new StringBuilder();
    for (char letter : text.toCharArray()) {
      if (letter == '"' || letter == '\\' || letter < ' ') {
        made.append(String.format("\\u%04x", (int) letter));
      } else {
        made.append(letter);
      }
    }
    return made.toString();
  }
}
