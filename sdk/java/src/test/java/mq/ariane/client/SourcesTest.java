package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where addresses of name servers come from. */
class SourcesTest {
    @Test
    void aSourceThatHangsHoldsNobodyUp(@TempDir Path folder) throws Exception {
        Path pipe = folder.resolve("names");
        // As a file of a server that is away: whoever reads it waits.
        assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            Sources sources = new Sources(List.of("file:" + pipe), read -> CompletableFuture.supplyAsync(read, threads));
            assertTimeoutPreemptively(Duration.ofSeconds(30), () -> {
                ArianeException late = assertThrows(ArianeException.class,
                        () -> sources.addresses(Deadline.in(Duration.ofMillis(50))));
                assertTrue(late.isRetriable(), late.getMessage());
                sources.doubt();
            });
            CompletableFuture<List<String>> first = CompletableFuture.supplyAsync(
                    () -> sources.addresses(Deadline.in(Duration.ofSeconds(30))), threads);
            Files.writeString(pipe, "# ours\n127.0.0.1:2, 127.0.0.1:3\n");
            assertEquals(List.of("127.0.0.1:2", "127.0.0.1:3"), first.join());
            sources.doubt();
            assertEquals(first.join(), assertTimeoutPreemptively(Duration.ofSeconds(30),
                    () -> sources.addresses(Deadline.in(Duration.ofSeconds(30)))), "old ones hold");
            Files.writeString(pipe, ""); // The reading ends.
        } finally {
            threads.shutdownNow();
        }
    }

    @Test
    void theEnvironmentNamesSeveral() {
        assertEquals(List.of("127.0.0.1:2", "127.0.0.1:3"), Sources.named("127.0.0.1:2; 127.0.0.1:3,"));
        assertEquals(List.of(), Sources.named(""));
        var none = assertThrows(IllegalArgumentException.class, () -> new Client(List.of()));
        assertTrue(none.getMessage().endsWith("pass it, or set ARIANE_NAME_SERVERS"), none.getMessage());
    }

    @Test
    void whatIsInNoSourceIsSaid(@TempDir Path folder) {
        Sources sources = new Sources(List.of("file:" + folder.resolve("none")), read -> CompletableFuture.supplyAsync(read));
        ArianeException error = assertThrows(ArianeException.class,
                () -> sources.addresses(Deadline.in(Duration.ofSeconds(30))));
        assertEquals("NAME_SERVERS_UNREACHABLE", error.reason());
        assertTrue(error.isRetriable() && !error.isOutcomeUnknown(), error.getMessage());
        assertTrue(error.getMessage().startsWith("no name server is known: file:"), error.getMessage());
    }

    @Test
    void whatCanNeverBeReadIsNoSource() {
        for (String text : List.of("dns:names:9876", "dns:[::1]:9876", "file:names", "http://names:80/list?of=all")) {
            assertTrue(Sources.isSource(text), text);
        }
        for (String text : List.of("dns:names", "dns:names:0", "dns:names:65536", "file:", "http://", "ftp://n/l", "n")) {
            assertFalse(Sources.isSource(text), text);
            assertThrows(IllegalArgumentException.class, () -> new Client(List.of(text)), text);
        }
    }
}
