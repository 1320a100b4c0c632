package ariane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
)

// Ack says that messages are done. Where the time of some was over, so that they come again or have, an error is of
// reason RECEIPT_HANDLE_EXPIRED, and the others are done; errors of several queues are joined.
func (c *Consumer) Ack(ctx context.Context, deliveries ...Delivery) error {
	return c.settle(ctx, deliveries, &brokerv1.RecordSettlement{})
}

// Nack says how messages that failed come back.
type Nack struct {
	// Delay before they do. Nil: as the group's retry policy says.
	Delay *time.Duration
	// DeadLetter makes them dead letters at once.
	DeadLetter bool
	// Cause is for people.
	Cause string
}

// Nack gives back messages that failed: each comes again after a delay, or becomes a dead letter when
// its attempts are used up.
func (c *Consumer) Nack(ctx context.Context, how Nack, deliveries ...Delivery) error {
	nack := &brokerv1.Nack{DeadLetter: how.DeadLetter, Cause: how.Cause}
	if how.Delay != nil {
		nack.Delay = durationpb.New(*how.Delay)
	}
	return c.settle(ctx, deliveries, &brokerv1.RecordSettlement{Outcome: &brokerv1.RecordSettlement_Nack{Nack: nack}})
}

// ChangeInvisibleDuration lets others not see a message for so long from now on; 0 shows it to them at
// once. The delivery is changed: until when, as far as this machine's clock tells.
func (c *Consumer) ChangeInvisibleDuration(ctx context.Context, delivery *Delivery, duration time.Duration) error {
	until := time.Now().Add(duration)
	err := c.settle(ctx, []Delivery{*delivery}, hidden(duration))
	if err == nil {
		delivery.InvisibleUntil = until
	}
	return err
}

func hidden(duration time.Duration) *brokerv1.RecordSettlement {
	return &brokerv1.RecordSettlement{
		Outcome: &brokerv1.RecordSettlement_InvisibleDuration{InvisibleDuration: durationpb.New(duration)},
	}
}

// settle calls each broker once, all at a time, for the messages that are its own: their outcome is that of the
// settlement. To settle again is harmless.
func (c *Consumer) settle(ctx context.Context, deliveries []Delivery, outcome *brokerv1.RecordSettlement) error {
	places := map[string][]Delivery{}
	for _, delivery := range deliveries {
		places[delivery.BrokerName] = append(places[delivery.BrokerName], delivery)
	}
	failed := make(chan error, len(places))
	for broker, theirs := range places {
		go func() { failed <- c.settleOn(ctx, broker, theirs, outcome) }()
	}
	var failures []error
	for range places {
		failures = append(failures, <-failed)
	}
	return errors.Join(failures...)
}

func (c *Consumer) settleOn(ctx context.Context, broker string, deliveries []Delivery, outcome *brokerv1.RecordSettlement) error {
	byReceipt := map[string][]Delivery{}
	for _, delivery := range deliveries {
		receipt := string(delivery.receipt)
		byReceipt[receipt] = append(byReceipt[receipt], delivery)
	}
	request := &brokerv1.SettleRecordsRequest{ConsumerGroup: c.options.Group}
	var settled [][]Delivery
	for receipt, theirs := range byReceipt {
		offsets := make([]int64, len(theirs))
		for place, delivery := range theirs {
			offsets[place] = delivery.Offset
		}
		settled = append(settled, theirs)
		request.Settlements = append(request.Settlements, &brokerv1.RecordSettlement{
			Receipt: []byte(receipt), Ranges: rangesOf(offsets), Outcome: outcome.Outcome,
		})
	}
	var results []*brokerv1.SettledRecords
	err := c.onPrimary(ctx, broker, func(ctx context.Context, stub brokerv1.ReceiveServiceClient) error {
		answer, err := stub.SettleRecords(ctx, request)
		results = answer.GetResults()
		return err
	})
	if err != nil {
		return err
	}
	if len(results) != len(settled) {
		text := fmt.Sprintf("%s came for %s", counted(len(results), "result"), counted(len(settled), "settlement"))
		return errorOf(status.Error(codes.Internal, text), broker)
	}
	var failures []error
	for place, result := range results {
		if result.Error != nil {
			failures = append(failures, fmt.Errorf("%s: %w", named(settled[place]), errorOfStatus(result.Error, broker)))
		}
	}
	return errors.Join(failures...)
}

// named names messages of which some are not settled.
func named(deliveries []Delivery) string {
	if len(deliveries) == 1 {
		return "message " + deliveries[0].ID
	}
	return fmt.Sprintf("some of %s from %s on", counted(len(deliveries), "message"), deliveries[0].ID)
}

func (c *Consumer) onPrimary(
	ctx context.Context, broker string, call func(context.Context, brokerv1.ReceiveServiceClient) error,
) error {
	return c.client.onPrimary(ctx, broker, c.topics, func(ctx context.Context, connection *grpc.ClientConn) error {
		return call(ctx, brokerv1.NewReceiveServiceClient(connection))
	})
}
