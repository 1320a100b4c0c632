package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.metrics.InstrumentType;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.AggregationTemporality;
import io.opentelemetry.sdk.metrics.export.CollectionRegistration;
import io.opentelemetry.sdk.metrics.export.MetricReader;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import mq.ariane.client.opentelemetry.OpenTelemetryTracing;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class TracingTest {
    /** Measures when it is asked. */
    private static final class Reader implements MetricReader {
        private CollectionRegistration registration;

        @Override
        public void register(CollectionRegistration measured) {
            registration = measured;
        }

        @Override
        public CompletableResultCode forceFlush() {
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public CompletableResultCode shutdown() {
            return CompletableResultCode.ofSuccess();
        }

        @Override
        public AggregationTemporality getAggregationTemporality(InstrumentType type) {
            return AggregationTemporality.CUMULATIVE;
        }

        /** The sums of a counter, by the type of the error. */
        Map<String, Long> sums(String name) {
            Map<String, Long> sums = new TreeMap<>();
            registration.collectAllMetrics().stream().filter(each -> each.getName().equals(name))
                    .flatMap(each -> each.getLongSumData().getPoints().stream())
                    .forEach(each -> sums.merge(String.valueOf(
                            each.getAttributes().get(AttributeKey.stringKey("error.type"))), each.getValue(), Long::sum));
            return sums;
        }
    }

    private static Message message(String body) {
        return Message.of(FakeProcess.TOPIC, body.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void aClientWithoutOpenTelemetryIsWhole() throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String each : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!each.contains("opentelemetry")) {
                urls.add(Path.of(each).toUri().toURL());
            }
        }
        Path classes = Path.of(Client.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (URLClassLoader plain = new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
                Stream<Path> files = Files.list(classes.resolve("mq/ariane/client"))) {
            assertThrows(ClassNotFoundException.class, () -> plain.loadClass("io.opentelemetry.api.OpenTelemetry"));
            int looked = 0;
            for (Path file : (Iterable<Path>) files::iterator) {
                String name = file.getFileName().toString();
                if (name.endsWith(".class")) {
                    Class<?> found = Class.forName("mq.ariane.client." + name.replace(".class", ""), false, plain);
                    // Whatever it names is there.
                    looked += found.getDeclaredMethods().length + found.getDeclaredConstructors().length;
                }
            }
            assertTrue(looked > 300, "looked at " + looked);
        }
    }

    @Test
    void whatIsNotSampledCarriesAContextButInABatch() throws Exception {
        Reader reader = new Reader();
        OpenTelemetrySdk telemetry = OpenTelemetrySdk.builder()
                .setTracerProvider(SdkTracerProvider.builder().setSampler(Sampler.alwaysOff()).build())
                .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(reader).build()).build();
        ClientSettings settings = ClientSettings.builder().tracing(OpenTelemetryTracing.of(telemetry)).build();
        try (FakeProcess broker = new FakeProcess("broker-a");
                FakeProcess nameServer = new FakeProcess("", broker);
                Client client = new Client(List.of(nameServer.address), settings)) {
            Producer producer = new Producer(client);
            producer.sendBatch(List.of(message("a"), message("b")));
            producer.send(message("c"));
            producer.sendAsync(message("d")).get();
            List<Boolean> carry = broker.sent.stream().flatMap(each -> each.getMessagesList().stream())
                    .map(each -> each.getPropertiesMap().containsKey("traceparent")).toList();
            assertEquals(Arrays.asList(false, false, true, true), carry);

            assertThrows(ArianeException.class, () -> producer.send(message("bad")));
            assertTrue(producer.sendAsync(message("bad")).handle((receipt, failure) -> failure != null).get());
            assertThrows(IllegalArgumentException.class, () -> producer.sendAsync(message("x").withTag("\ud800")));
            assertEquals(Map.of("null", 4L, ArianeException.class.getName(), 2L,
                    IllegalArgumentException.class.getName(), 1L), reader.sums("messaging.client.sent.messages"));
        }
    }

    @Test
    void aListenerIsCountedWhateverItThrows() throws Exception {
        Reader reader = new Reader();
        OpenTelemetrySdk telemetry = OpenTelemetrySdk.builder()
                .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(reader).build()).build();
        ClientSettings settings = ClientSettings.builder().tracing(OpenTelemetryTracing.of(telemetry)).build();
        try (FakeProcess broker = new FakeProcess("broker-a");
                FakeProcess nameServer = new FakeProcess("", broker);
                Client client = new Client(List.of(nameServer.address), settings)) {
            broker.receive = () -> {
                if (broker.count("receive") > 1) {
                    Thread.sleep(Long.MAX_VALUE);
                }
                return List.of("good", "bad");
            };
            Consumer consumer = new Consumer(client, ConsumerSettings.of("waiters", FakeProcess.TOPIC));
            Thread listening = new Thread(() -> {
                try {
                    consumer.listen(1, delivery -> {
                        if (new String(delivery.message().body(), StandardCharsets.UTF_8).equals("bad")) {
                            throw new AssertionError("as told");
                        }
                    });
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            });
            listening.start();
            while (broker.settled.isEmpty() || broker.failed.isEmpty()) {
                Thread.sleep(1);
            }
            consumer.close();
            listening.join();
            assertFalse(broker.settled.contains("bad"));
            assertEquals(Map.of("null", 1L, AssertionError.class.getName(), 1L),
                    reader.sums("messaging.client.consumed.messages"));
        }
    }
}
