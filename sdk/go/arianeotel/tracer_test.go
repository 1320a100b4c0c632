package arianeotel

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"ariane.mq/go/ariane"
)

func TestABatchThatIsNotSampledStaysAsItIs(t *testing.T) {
	tracer := NewTracer(trace.NewTracerProvider(trace.WithSampler(trace.NeverSample())))
	for count, marked := range map[string]bool{"messaging.message.body.size": true, "messaging.batch.message_count": false} {
		_, carried, end := tracer.Begin(context.Background(), ariane.Operation{Name: "send", Sends: true, Attributes: map[string]any{count: 2}})
		end(nil, nil)
		if (carried["traceparent"] != "") != marked {
			t.Error(count, carried)
		}
	}
}
