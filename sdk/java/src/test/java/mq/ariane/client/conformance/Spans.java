package mq.ariane.client.conformance;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import mq.ariane.client.Tracing;
import mq.ariane.client.opentelemetry.OpenTelemetryTracing;

/** The spans of a program, in memory. */
final class Spans implements SpanExporter {
    private final List<SpanData> ended = new CopyOnWriteArrayList<>();

    /** Makes spans that are kept here. */
    Tracing tracing() {
        SdkTracerProvider provider = SdkTracerProvider.builder().addSpanProcessor(SimpleSpanProcessor.create(this)).build();
        return OpenTelemetryTracing.of(OpenTelemetrySdk.builder().setTracerProvider(provider).build());
    }

    /** Those so far. */
    List<Map<String, Object>> told() {
        return ended.stream().map(Spans::told).toList();
    }

    private static Map<String, Object> told(SpanData span) {
        Map<String, Object> attributes = new HashMap<>();
        span.getAttributes().forEach((AttributeKey<?> key, Object value) -> attributes.put(key.getKey(), value));
        return Map.of("name", span.getName(), "kind", span.getKind().name(), "trace", span.getTraceId(),
                "span", span.getSpanId(),
                "parent", span.getParentSpanContext().isValid() ? span.getParentSpanId() : "",
                "links", span.getLinks().stream().map(each -> each.getSpanContext().getTraceId()).toList(),
                "attributes", attributes);
    }

    @Override
    public CompletableResultCode export(Collection<SpanData> spans) {
        ended.addAll(spans);
        return CompletableResultCode.ofSuccess();
    }

    @Override
    public CompletableResultCode flush() {
        return CompletableResultCode.ofSuccess();
    }

    @Override
    public CompletableResultCode shutdown() {
        return CompletableResultCode.ofSuccess();
    }
}
