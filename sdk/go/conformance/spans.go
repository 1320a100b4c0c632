package main

import (
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"ariane.mq/go/arianeotel"
)

// spans records them from the first time on, of clients that are made from then on.
func (w *worker) spans() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.recorded == nil {
		w.recorded = tracetest.NewInMemoryExporter()
		w.tracer = arianeotel.NewTracer(trace.NewTracerProvider(trace.WithSyncer(w.recorded)))
	}
	told := []map[string]any{}
	for _, span := range w.recorded.GetSpans() {
		parent := ""
		if span.Parent.SpanID().IsValid() {
			parent = span.Parent.SpanID().String()
		}
		links := []string{}
		for _, link := range span.Links {
			links = append(links, link.SpanContext.TraceID().String())
		}
		attributes := map[string]any{}
		for _, each := range span.Attributes {
			attributes[string(each.Key)] = each.Value.AsInterface()
		}
		told = append(told, map[string]any{
			"name": span.Name, "kind": strings.ToUpper(span.SpanKind.String()), "trace": span.SpanContext.TraceID().String(),
			"span": span.SpanContext.SpanID().String(), "parent": parent, "links": links, "attributes": attributes,
		})
	}
	return map[string]any{"spans": told}
}
