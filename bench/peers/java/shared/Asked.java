import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a driver is asked for: a JSON object a line, with texts and whole numbers. */
public final class Asked {
  /** Answers one of them with a JSON object. */
  public interface Answering {
    String answer(Asked asked) throws Exception;
  }

  private final String line;

  public Asked(String line) {
    this.line = line;
  }

  /** Answers until standard input ends. */
  public static void serve(Answering driver) throws Exception {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = driver.answer(new Asked(line));
      } catch (Exception error) {
        error.printStackTrace();
        answer = "{\"error\": \"" + error.toString().replaceAll("[\"\\\\\\n\\r]", " ") + "\"}";
      }
      System.out.println("\n" + answer);
      System.out.flush();
    }
  }

  public String text(String name) {
    Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(line);
    return found.find() ? found.group(1) : "";
  }

  public boolean flag(String name) {
    return line.contains("\"" + name + "\": true");
  }

  public int number(String name) {
    Matcher found = Pattern.compile("\"" + name + "\": (\\d+)").matcher(line);
    return found.find() ? Integer.parseInt(found.group(1)) : 0;
  }
}
