package ariane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// Tracer makes spans. This package has none of its own, so that programs without them carry no library for them.
type Tracer interface {
	// Begin begins the span of an operation. It returns the context for what happens in it; the properties that carry
	// it, "traceparent" and "tracestate"; and what ends it, with attributes that are known only then, and with the error
	// of what failed.
	Begin(ctx context.Context, operation Operation) (inside context.Context, carried map[string]string, end func(attributes map[string]any, failure error))
}

// Operation is what a span is of.
type Operation struct {
	// Name of the span, such as "send orders".
	Name string
	// Sends says whether messages are sent; else one is processed.
	Sends bool
	// Attributes after OpenTelemetry's conventions for messaging: texts, and integers of type int.
	Attributes map[string]any
	// Contexts are properties of messages that carry spans, those in which they were sent or are passed on. The span is
	// linked to these, and continues the one of a message that is processed.
	Contexts []map[string]string
}

const (
	errorType       = "error.type"
	messageID       = "messaging.message.id"
	bodySize        = "messaging.message.body.size"
	partitionID     = "messaging.destination.partition.id"
	tracedLinksMost = 16
)

func (c *Client) operation(name, topic string, messages []Message) Operation {
	operation := Operation{
		Name:  name + " " + topic,
		Sends: name == "send",
		Attributes: map[string]any{
			"messaging.system":           "arianemq",
			"messaging.operation.name":   name,
			"messaging.operation.type":   name,
			"messaging.destination.name": topic,
			"messaging.client.id":        c.id,
		},
	}
	for _, each := range messages {
		if each.Properties[traceParent] != "" && len(operation.Contexts) < tracedLinksMost {
			operation.Contexts = append(operation.Contexts, each.Properties)
		}
	}
	return operation
}

// traced has messages sent in a span, which they carry unless they carry one.
func (c *Client) traced(ctx context.Context, messages []Message, add func(map[string]any), send func(context.Context, []Message) ([]Receipt, error)) ([]Receipt, error) {
	if c.options.Tracer == nil || len(messages) == 0 {
		return send(ctx, messages)
	}
	operation := c.operation("send", messages[0].Topic, messages)
	add(operation.Attributes)
	inside, carried, end := c.options.Tracer.Begin(ctx, operation)
	marked := make([]Message, len(messages))
	for place, each := range messages {
		if each.Properties[traceParent] == "" && len(carried) > 0 {
			own := maps.Clone(carried)
			maps.Copy(own, each.Properties)
			each.Properties = own
		}
		marked[place] = each
	}
	receipts, err := send(inside, marked)
	known := map[string]any{}
	if err == nil && len(receipts) == 1 {
		known = c.whereStored(messages[0].Topic, receipts[0])
	}
	endSpan(end, known, err)
	return receipts, err
}

func (c *Client) whereStored(topic string, receipt Receipt) map[string]any {
	known := map[string]any{messageID: receipt.ID, partitionID: partitionOf(receipt.BrokerName, receipt.QueueID)}
	host, port, err := net.SplitHostPort(c.knownAddress(topic, receipt.BrokerName))
	if number, failure := strconv.Atoi(port); err == nil && failure == nil {
		known["server.address"], known["server.port"] = host, number
	}
	return known
}

// ofSingle and ofBatch add what a span tells of what is sent.
func ofSingle(message Message, replyTo *commonv1.ReplyAddress) func(map[string]any) {
	return func(attributes map[string]any) {
		attributes[bodySize] = len(message.Body)
		if replyTo != nil {
			attributes["messaging.message.conversation_id"] = replyTo.CorrelationId
		}
	}
}

func ofBatch(messages []Message) func(map[string]any) {
	return func(attributes map[string]any) { attributes["messaging.batch.message_count"] = len(messages) }
}

// tracedListener has each call of a listener in a span, which continues that of the send.
func (c *Consumer) tracedListener(listener Listener) Listener {
	tracer := c.client.options.Tracer
	if tracer == nil {
		return listener
	}
	return func(ctx context.Context, delivery Delivery) error {
		operation := c.client.operation("process", delivery.Topic, []Message{delivery.Message})
		operation.Attributes["messaging.consumer.group.name"] = c.options.Group
		operation.Attributes[partitionID] = partitionOf(delivery.BrokerName, delivery.QueueID)
		operation.Attributes[messageID] = delivery.ID
		operation.Attributes[bodySize] = len(delivery.Body)
		inside, _, end := tracer.Begin(ctx, operation)
		err := errors.New("the listener did not return")
		defer func() { endSpan(end, map[string]any{}, err) }()
		err = listener(inside, delivery)
		return err
	}
}

func partitionOf(broker string, queue int32) string { return fmt.Sprintf("%s#%d", broker, queue) }

func endSpan(end func(map[string]any, error), known map[string]any, err error) {
	if err != nil {
		var failure *Error
		known[errorType] = fmt.Sprintf("%T", err)
		if errors.As(err, &failure) && failure.Reason != "" {
			known[errorType] = failure.Reason
		}
	}
	end(known, err)
}
