// Package arianeotel makes spans of OpenTelemetry for clients of ArianeMQ: sends and calls of listeners, after the conventions
// for messaging.
package arianeotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"ariane.mq/go/ariane"
)

// carrier is W3C's trace context, which clients in every language carry.
var carrier propagation.TraceContext

type tracer struct{ spans trace.Tracer }

// NewTracer makes the tracer of a client, for [ariane.Options]. A nil provider is the global one.
func NewTracer(provider trace.TracerProvider) ariane.Tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return tracer{provider.Tracer("ariane.mq/go/ariane", trace.WithInstrumentationVersion(ariane.Version))}
}

// Begin begins a span.
func (t tracer) Begin(ctx context.Context, operation ariane.Operation) (context.Context, map[string]string, func(map[string]any, error)) {
	kind := trace.SpanKindConsumer
	if operation.Sends {
		kind = trace.SpanKindProducer
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attributesOf(operation.Attributes)...)}
	for _, properties := range operation.Contexts {
		found := trace.SpanContextFromContext(carrier.Extract(context.Background(), propagation.MapCarrier(properties)))
		if !found.IsValid() {
			continue
		}
		options = append(options, trace.WithLinks(trace.Link{SpanContext: found}))
		if !operation.Sends {
			ctx = trace.ContextWithRemoteSpanContext(ctx, found)
		}
	}
	ctx, span := t.spans.Start(ctx, operation.Name, options...)
	carried := propagation.MapCarrier{}
	// A batch that is not sampled stays as it is: a context that is not exported is useless to it.
	if _, batch := operation.Attributes["messaging.batch.message_count"]; !batch || span.SpanContext().IsSampled() {
		carrier.Inject(ctx, carried)
	}
	return ctx, carried, func(known map[string]any, failure error) {
		span.SetAttributes(attributesOf(known)...)
		if failure != nil {
			span.SetStatus(codes.Error, fmt.Sprint(failure))
		}
		span.End()
	}
}

func attributesOf(named map[string]any) []attribute.KeyValue {
	made := make([]attribute.KeyValue, 0, len(named))
	for name, value := range named {
		switch value := value.(type) {
		case string:
			made = append(made, attribute.String(name, value))
		case int:
			made = append(made, attribute.Int(name, value))
		}
	}
	return made
}
