package mq.ariane.client;

import io.grpc.Status;
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
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Addresses of name servers, and where more of them are read, again and again: {@code dns:host:port}, {@code file:path}
 * or a URL.
 */
final class Sources {
    private static final Duration LIFE = Duration.ofSeconds(30);
    private static final Duration WAIT = Duration.ofSeconds(3);
    private static final Pattern SOURCE = Pattern.compile("file:.+|https?://[^\\s/]+(/\\S*)?");
    private static final Pattern ADDRESS = Pattern.compile("(\\[[^\\]\\s,;/]+\\]|[^\\s:,;/]+):(\\d{1,5})");
    private static final int PORT_MAX = 65535;

    private final List<String> texts;
    private final Function<Supplier<List<String>>, CompletableFuture<List<String>>> aside;
    /** Of each source, the last that it had; only a reading touches it. */
    private final Map<String, List<String>> found = new HashMap<>();
    private CompletableFuture<List<String>> reading;
    private List<String> all;
    private long untilNanos = System.nanoTime();

    /** Takes what is read aside: a file or a page may take its time. */
    Sources(List<String> texts, Function<Supplier<List<String>>, CompletableFuture<List<String>>> aside) {
        this.texts = List.copyOf(texts);
        this.aside = aside;
        all = this.texts.stream().filter(Sources::isAddress).toList();
    }

    /** The addresses in a text, which commas or semicolons separate. */
    static List<String> named(String text) {
        return Arrays.stream(text.split("[,;\\s]+")).filter(word -> !word.isEmpty()).toList();
    }

    static boolean isSource(String text) {
        return SOURCE.matcher(text).matches() || text.startsWith("dns:") && isAddress(text.substring("dns:".length()));
    }

    static boolean isAddress(String text) {
        Matcher found = ADDRESS.matcher(text);
        int port = found.matches() ? Integer.parseInt(found.group(2)) : 0;
        return port > 0 && port <= PORT_MAX;
    }

    /** Those that are known now. Old ones hold while they are read again; without any, it waits. */
    List<String> addresses(Deadline deadline) {
        CompletableFuture<List<String>> coming;
        synchronized (this) {
            if (all.equals(texts) || !all.isEmpty() && untilNanos - System.nanoTime() > 0) {
                return all;
            }
            if (reading == null || reading.isDone()) {
                reading = aside.apply(this::read);
            }
            if (!all.isEmpty()) {
                return all;
            }
            coming = reading;
        }
        return Client.answerOf(coming, "a source of name servers", deadline);
    }

    private List<String> read() {
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
            throw ArianeException.of(Status.Code.UNAVAILABLE, "NAME_SERVERS_UNREACHABLE",
                    "no name server is known: " + String.join("; ", failures));
        }
        synchronized (this) {
            untilNanos = System.nanoTime() + LIFE.toNanos();
            all = List.copyOf(known);
            return all;
        }
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
            if (!isAddress(word)) {
                throw new IOException(word + " is no host:port");
            }
        }
        if (words.isEmpty()) {
            throw new IOException("it has no addresses");
        }
        return words;
    }

    private static String fetch(String url) throws IOException, InterruptedException {
        // A proxy of the environment is for pages of the internet.
        HttpClient client = HttpClient.newBuilder().connectTimeout(WAIT).proxy(HttpClient.Builder.NO_PROXY).build();
        HttpResponse<String> answer = client.send(HttpRequest.newBuilder(URI.create(url)).timeout(WAIT).build(),
                HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException("status " + answer.statusCode());
        }
        return answer.body();
    }
}
