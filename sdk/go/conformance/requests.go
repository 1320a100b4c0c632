package main

import (
	"context"
	"slices"
	"time"

	"ariane.mq/go/ariane"
)

func (w *worker) request(ctx context.Context, asked command) (any, error) {
	sender, err := w.connect("")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(asked.TimeoutMs)*time.Millisecond)
	defer cancel()
	reply, err := sender.Request(ctx, sent(asked.Messages[0]))
	return map[string]any{"body": append([]byte{}, reply.Body...)}, err
}

// respond answers each request by its body reversed.
func (w *worker) respond(asked command) error {
	sender, err := w.connect("")
	if err != nil {
		return err
	}
	consumer, err := w.consumer(asked)
	if err != nil {
		return err
	}
	w.listenUntilStop(consumer, concurrency, func(ctx context.Context, request ariane.Delivery) error {
		slices.Reverse(request.Body)
		_, err := sender.Reply(ctx, request, ariane.Message{Body: request.Body})
		return err
	})
	return nil
}

const concurrency = 16

func (w *worker) listenUntilStop(consumer *ariane.Consumer, concurrency int, listener ariane.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	w.stop = func() error {
		cancel()
		return <-over
	}
	go func() { over <- consumer.Listen(ctx, concurrency, listener) }()
}
