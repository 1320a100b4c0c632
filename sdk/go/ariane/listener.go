package ariane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Listener handles one message. When it returns nil, the message is done; on an error, or a panic, it comes again,
// or becomes a dead letter at last. The context ends with that of Listen, and when the message is lost to others.
type Listener func(ctx context.Context, delivery Delivery) error

// Listen hands messages to a listener, at most so many at a time, until the context ends or the consumer is closed.
// Messages stay invisible to others for as long as they wait here or are worked on. Listen returns when those that
// were begun are over, and gives back the others. An error says that a broker refuses; what passes is waited for.
func (c *Consumer) Listen(ctx context.Context, concurrency int, listener Listener) error {
	if concurrency < 1 {
		return fmt.Errorf("ariane: concurrency is %d: 1 or more are expected", concurrency)
	}
	listener = c.tracedListener(listener)
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(c.ctx, cancel)()
	room := make(chan struct{}, concurrency)
	had := &longWork{group: c.options.Group}
	watched, unwatch := context.WithCancel(context.Background()) // Those that were begun end later than the context.
	go had.watch(watched, func(text string) { c.client.options.Logger.Warn(text) })
	defer unwatch()
	var begun sync.WaitGroup
	defer begun.Wait()
	defer cancel()
	for {
		deliveries, err := c.Receive(ctx, holdMax)
		var failure *Error
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			c.giveBack(deliveries)
			return nil
		case err != nil && !(errors.As(err, &failure) && failure.passing()):
			return err
		}
		var waiting sync.WaitGroup // No more are received than wait for room.
		for _, each := range deliveries {
			waiting.Add(1)
			begun.Go(func() {
				c.handle(ctx, each, room, waiting.Done, func(ctx context.Context, delivery Delivery) error {
					defer had.begin(&delivery, time.Now())()
					return listened(ctx, delivery, listener)
				})
			})
		}
		waiting.Wait()
	}
}

// handle has one message handled when there is room, keeps it invisible until then, and settles it.
func (c *Consumer) handle(ctx context.Context, delivery Delivery, room chan struct{}, hasRoom func(), listener Listener) {
	given := delivery // InvisibleUntil of what is kept changes meanwhile.
	own, lost := context.WithCancel(ctx)
	defer lost()
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	kept.Go(func() { c.keep(keeping, &delivery, lost) })
	end := func() {
		stop()
		kept.Wait()
	}
	select {
	case room <- struct{}{}:
		hasRoom()
	case <-own.Done():
		hasRoom()
		end()
		c.giveBack([]Delivery{delivery})
		return
	}
	err := listener(own, given)
	<-room
	end()
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		err = c.Ack(ctx, delivery)
	} else {
		err = c.Nack(ctx, Nack{Cause: causeOf(err)}, delivery)
	}
	if err != nil {
		c.client.options.Logger.Warn("a message is not settled, and comes again",
			"group", c.options.Group, "id", delivery.ID, "error", err)
	}
}

// listened calls a listener in a goroutine of its own, which it may end, as by a failed assertion of a test.
func listened(ctx context.Context, delivery Delivery, listener Listener) error {
	ended := make(chan error, 1)
	go func() {
		err := errors.New("the listener ended its goroutine")
		defer func() {
			if panicked := recover(); panicked != nil {
				err = fmt.Errorf("panic: %v", panicked)
			}
			ended <- err
		}()
		err = listener(ctx, delivery)
	}()
	return <-ended
}

const causeMax = 1024

// causeOf is the beginning of the text of an error or a panic, also of one that panics when it is asked.
func causeOf(failure any) string {
	text := fmt.Sprint(failure)
	return strings.ToValidUTF8(text[:min(len(text), causeMax)], "\uFFFD")
}

// keep lets others not see a message until the context ends; lost is called when it is theirs.
func (c *Consumer) keep(ctx context.Context, delivery *Delivery, lost func()) {
	for {
		select {
		case <-time.After(c.options.InvisibleDuration / 2):
		case <-ctx.Done():
			return
		}
		err := c.ChangeInvisibleDuration(ctx, delivery, c.options.InvisibleDuration)
		if ReasonOf(err) == ReasonReceiptHandleExpired {
			lost()
			return
		}
	}
}
