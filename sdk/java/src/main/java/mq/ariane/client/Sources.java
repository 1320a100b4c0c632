package mq.ariane.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Addresses of name servers, and where more of them are read, again and again: {@code dns:host:port}, {@code file:path}
 * or a URL.
 */
final class Sources {
    private static final Duration LIFE = Duration.ofSeconds(30);
    private static final Duration WAIT = Duration.ofSeconds(3);
    private static final Pattern SOURCE = Pattern.compile("dns:[^\\s/]+:\\d{1,5}|file:.+|https?://.+");
    private static final Pattern ADDRESS = Pattern.compile("[^\\s,;/]+:\\d{1,5}");

    private final List<String> texts;
    /** Of each source, the last that it had. */
    private final Map<String, List<String>> found = new HashMap<>();
    private List<String> all = List.of();
    private long untilNanos;

    Sources(List<String> texts) {
        this.texts = List.copyOf(texts);
    }

    static boolean isSource(String text) {
        return SOURCE.matcher(text).matches();
    }

    /** Those that are known now. */
    synchronized List<String> addresses() {
        if (!all.isEmpty() && untilNanos - System.nanoTime() > 0) {
            return all;
        }
        List<String> known = new ArrayList<>();
        List<String> failures = new ArrayList<>();
        for (String text : texts) {
            if (!isSource(text)) {
                known.add(text);
                continue;
            }
            try {
                found.put(text, read(text));
            } catch (IOException | IllegalArgumentException error) {
                failures.add(text + ": " + (error.getMessage() == null ? error : error.getMessage()));
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            known.addAll(found.getOrDefault(text, List.of()));
        }
        if (known.isEmpty()) {
            throw ArianeException.away("no name server is known: " + String.join("; ", failures));
        }
        untilNanos = System.nanoTime() + LIFE.toNanos();
        all = List.copyOf(known);
        return all;
    }

    /** Has sources read again: others may be known by now. */
    synchronized void doubt() {
        untilNanos = System.nanoTime();
    }

    private static List<String> read(String text) throws IOException, InterruptedException {
        if (text.startsWith("dns:")) {
            int colon = text.lastIndexOf(':');
            String host = text.substring("dns:".length(), colon);
            return Stream.of(InetAddress.getAllByName(host)).map(InetAddress::getHostAddress).sorted()
                    .map(each -> (each.contains(":") ? "[" + each + "]" : each) + text.substring(colon)).toList();
        }
        String content = text.startsWith("file:") ? Files.readString(Path.of(text.substring("file:".length())))
                : fetch(text);
        List<String> words = content.lines().filter(line -> !line.stripLeading().startsWith("#"))
                .flatMap(line -> Arrays.stream(line.split("[\\s,;]+"))).filter(word -> !word.isEmpty()).toList();
        for (String word : words) {
            if (!ADDRESS.matcher(word).matches()) {
                throw new IOException(word + " is no host:port");
            }
        }
        if (words.isEmpty()) {
            throw new IOException("it has no addresses");
        }
        return words;
    }

    private static String fetch(String url) throws IOException, InterruptedException {
        HttpClient client = HttpClient.newBuilder().connectTimeout(WAIT).build();
        HttpResponse<String> answer = client.send(HttpRequest.newBuilder(URI.create(url)).timeout(WAIT).build(),
                HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException("status " + answer.statusCode());
        }
        return answer.body();
    }
}
