package mq.ariane.client.opentelemetry;

import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import mq.ariane.client.ArianeException;
import mq.ariane.client.Delivery;
import mq.ariane.client.Message;
import mq.ariane.client.Receipt;
import mq.ariane.client.Tracing;

/**
 * Makes spans of sends and of calls of listeners, and measures them, by OpenTelemetry's conventions for messaging. The
 * context of a send travels in the properties {@code traceparent} and {@code tracestate}.
 */
public final class OpenTelemetryTracing implements Tracing {
    private static final String SCOPE = "mq.ariane.client";
    private static final String TRACE_PARENT = "traceparent";

    /** The most links of a batch's span: each costs as much as a message. */
    private static final int LINKS_MAX = 16;

    private static final AttributeKey<String> SYSTEM = AttributeKey.stringKey("messaging.system");
    private static final AttributeKey<String> OPERATION_NAME = AttributeKey.stringKey("messaging.operation.name");
    private static final AttributeKey<String> OPERATION_TYPE = AttributeKey.stringKey("messaging.operation.type");
    private static final AttributeKey<String> DESTINATION = AttributeKey.stringKey("messaging.destination.name");
    private static final AttributeKey<String> PARTITION = AttributeKey.stringKey("messaging.destination.partition.id");
    private static final AttributeKey<String> GROUP = AttributeKey.stringKey("messaging.consumer.group.name");
    private static final AttributeKey<String> MESSAGE_ID = AttributeKey.stringKey("messaging.message.id");
    private static final AttributeKey<Long> BODY_SIZE = AttributeKey.longKey("messaging.message.body.size");
    private static final AttributeKey<String> CONVERSATION = AttributeKey.stringKey("messaging.message.conversation_id");
    private static final AttributeKey<Long> BATCH_COUNT = AttributeKey.longKey("messaging.batch.message_count");
    private static final AttributeKey<String> CLIENT = AttributeKey.stringKey("messaging.client.id");
    private static final AttributeKey<String> SERVER = AttributeKey.stringKey("server.address");
    private static final AttributeKey<Long> PORT = AttributeKey.longKey("server.port");
    private static final AttributeKey<String> ERROR = AttributeKey.stringKey("error.type");

    private static final TextMapGetter<Map<String, String>> PROPERTIES = new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(Map<String, String> carrier) {
            return carrier.keySet();
        }

        @Override
        public String get(Map<String, String> carrier, String key) {
            return carrier.get(key);
        }
    };

    private final Tracer tracer;
    private final W3CTraceContextPropagator propagator = W3CTraceContextPropagator.getInstance();
    private final LongCounter sent;
    private final LongCounter consumed;
    private final DoubleHistogram operationSeconds;
    private final DoubleHistogram processSeconds;

    private OpenTelemetryTracing(OpenTelemetry telemetry) {
        tracer = telemetry.getTracer(SCOPE);
        Meter meter = telemetry.getMeter(SCOPE);
        sent = meter.counterBuilder("messaging.client.sent.messages").setUnit("{message}").build();
        consumed = meter.counterBuilder("messaging.client.consumed.messages").setUnit("{message}").build();
        operationSeconds = meter.histogramBuilder("messaging.client.operation.duration").setUnit("s").build();
        processSeconds = meter.histogramBuilder("messaging.process.duration").setUnit("s").build();
    }

    /** Tells a configured OpenTelemetry, such as {@code GlobalOpenTelemetry.get()}. */
    public static OpenTelemetryTracing of(OpenTelemetry telemetry) {
        return new OpenTelemetryTracing(telemetry);
    }

    @Override
    public Sending sends(String clientId, List<Message> messages, boolean batch, String correlationId) {
        return new SendSpan(clientId, messages, batch, correlationId);
    }

    @Override
    public Handling handles(String clientId, String group, Delivery delivery) {
        return new ProcessSpan(clientId, group, delivery);
    }

    private static AttributesBuilder attributes(String operation, String topic) {
        return Attributes.builder().put(SYSTEM, "arianemq").put(OPERATION_NAME, operation).put(DESTINATION, topic);
    }

    /** The context that a message carries; null without one. */
    private Context carried(Message message) {
        return message.properties().containsKey(TRACE_PARENT)
                ? propagator.extract(Context.root(), message.properties(), PROPERTIES) : null;
    }

    private static void link(SpanBuilder span, Context context) {
        SpanContext of = context == null ? SpanContext.getInvalid() : Span.fromContext(context).getSpanContext();
        if (of.isValid()) {
            span.addLink(of);
        }
    }

    /** What became of it, as a span and as what is measured. */
    private static void fail(Span span, AttributesBuilder measured, Throwable failure) {
        String type = failure instanceof ArianeException known && !known.reason().isEmpty() ? known.reason()
                : failure.getClass().getName();
        measured.put(ERROR, type);
        span.setAttribute(ERROR, type);
        span.setStatus(StatusCode.ERROR, String.valueOf(failure.getMessage()));
    }

    private static double secondsSince(long nanos) {
        return (System.nanoTime() - nanos) / 1e9;
    }

    private final class SendSpan implements Sending {
        private final long began = System.nanoTime();
        private final AttributesBuilder measured;
        private final boolean batch;
        private final Span span;
        private final List<Message> messages;

        SendSpan(String clientId, List<Message> given, boolean batch, String correlationId) {
            String topic = given.get(0).topic();
            measured = attributes("send", topic);
            this.batch = batch;
            SpanBuilder builder = tracer.spanBuilder("send " + topic).setSpanKind(SpanKind.PRODUCER)
                    .setAllAttributes(measured.build()).setAttribute(OPERATION_TYPE, "send")
                    .setAttribute(CLIENT, clientId);
            if (batch) {
                builder.setAttribute(BATCH_COUNT, (long) given.size());
            } else {
                builder.setAttribute(BODY_SIZE, (long) given.get(0).body().length);
            }
            if (!correlationId.isEmpty()) {
                builder.setAttribute(CONVERSATION, correlationId);
            }
            given.stream().limit(LINKS_MAX).forEach(each -> link(builder, carried(each)));
            span = builder.startSpan();
            Map<String, String> context = new HashMap<>();
            // A batch that is not sampled stays as it is: a context that is not exported is useless to it.
            if (!batch || span.getSpanContext().isSampled()) {
                propagator.inject(Context.root().with(span), context, Map::put);
            }
            messages = context.isEmpty() ? given : given.stream().map(each -> marked(each, context)).toList();
        }

        private static Message marked(Message message, Map<String, String> context) {
            if (message.properties().containsKey(TRACE_PARENT)) {
                return message;
            }
            Map<String, String> properties = new HashMap<>(message.properties());
            properties.putAll(context);
            return message.withProperties(properties);
        }

        @Override
        public List<Message> messages() {
            return messages;
        }

        @Override
        public void stored(List<Receipt> receipts) {
            if (!batch && span.isRecording()) {
                Receipt receipt = receipts.get(0);
                int colon = receipt.brokerAddress().lastIndexOf(':');
                span.setAttribute(MESSAGE_ID, receipt.id())
                        .setAttribute(PARTITION, receipt.brokerName() + "#" + receipt.queueId())
                        .setAttribute(SERVER, receipt.brokerAddress().substring(0, colon))
                        .setAttribute(PORT, Long.valueOf(receipt.brokerAddress().substring(colon + 1)));
            }
            end();
        }

        @Override
        public void failed(Throwable failure) {
            fail(span, measured, failure);
            end();
        }

        private void end() {
            span.end();
            Attributes counted = measured.build();
            sent.add(messages.size(), counted);
            operationSeconds.record(secondsSince(began), counted);
        }
    }

    private final class ProcessSpan implements Handling {
        private final long began = System.nanoTime();
        private final AttributesBuilder measured;
        private final Span span;
        private final Scope scope;

        ProcessSpan(String clientId, String group, Delivery delivery) {
            Message message = delivery.message();
            measured = attributes("process", message.topic()).put(GROUP, group);
            Context sender = carried(message);
            SpanBuilder builder = tracer.spanBuilder("process " + message.topic()).setSpanKind(SpanKind.CONSUMER)
                    .setAllAttributes(measured.build()).setAttribute(OPERATION_TYPE, "process")
                    .setAttribute(CLIENT, clientId).setAttribute(MESSAGE_ID, message.id())
                    .setAttribute(PARTITION, delivery.brokerName() + "#" + delivery.queueId())
                    .setAttribute(BODY_SIZE, (long) message.body().length);
            if (sender != null) { // The listener goes on with the trace of the sender.
                builder.setParent(sender);
                link(builder, sender);
            }
            span = builder.startSpan();
            scope = span.makeCurrent();
        }

        @Override
        public void ended(Throwable failure) {
            if (failure != null) {
                fail(span, measured, failure);
                span.recordException(failure);
            }
            scope.close();
            span.end();
            Attributes counted = measured.build();
            consumed.add(1, counted);
            processSeconds.record(secondsSince(began), counted);
        }
    }
}
