package ariane

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

const (
	gatheredCountMax = 1024
	// gatheredBytesMax is of bodies: less than what brokers take in a call however they are set.
	gatheredBytesMax = 2 << 20
)

// gathering is the single sends to one place: those that come while a call is in flight are the next call.
// A lone one waits for nothing.
type gathering struct {
	send func(context.Context, queue, string, []*commonv1.Message) ([]Receipt, error)

	mu      sync.Mutex
	waiting []*single
	running bool
}

// single is a message that waits for the next call, or for its answer.
type single struct {
	ctx     context.Context
	message *commonv1.Message
	target  queue // Where it would go if it were alone.
	address string
	shares  bool // Whether it is in a call with others; guarded by the gathering.
	outcome chan outcome
}

type outcome struct {
	receipt Receipt
	err     error
}

// add sends a message, with others where there are some. The context has a deadline.
func (g *gathering) add(ctx context.Context, target queue, address string, message *commonv1.Message) (Receipt, error) {
	own := &single{ctx: ctx, message: message, target: target, address: address, outcome: make(chan outcome, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, own)
	if !g.running {
		g.running = true
		go g.run()
	}
	g.mu.Unlock()
	select {
	case got := <-own.outcome:
		return got.receipt, got.err
	case <-ctx.Done():
		return g.giveUp(own)
	}
}

// giveUp ends the wait of a message. One that is alone in its call ends with that, which knows its outcome better.
func (g *gathering) giveUp(own *single) (Receipt, error) {
	failure := errorOf(own.ctx.Err(), own.address)
	g.mu.Lock()
	place := slices.Index(g.waiting, own)
	if place >= 0 {
		g.waiting = slices.Delete(g.waiting, place, place+1)
		failure.OutcomeUnknown = false
	}
	shares := own.shares
	g.mu.Unlock()
	if place < 0 && !shares {
		got := <-own.outcome
		return got.receipt, got.err
	}
	return Receipt{}, failure
}

func (g *gathering) run() {
	for batch := g.take(); batch != nil; batch = g.take() {
		g.sendTogether(batch)
		// Whoever sends again in answer comes along.
		runtime.Gosched()
	}
}

// take takes what waits and fits into a call; nil when nothing does, and the next one begins anew.
func (g *gathering) take() []*single {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = len(g.waiting) > 0
	if !g.running {
		return nil
	}
	count, size := 0, 0
	for _, each := range g.waiting {
		size += len(each.message.Body)
		if count > 0 && (size > gatheredBytesMax || count == gatheredCountMax) {
			break
		}
		count++
	}
	batch := slices.Clone(g.waiting[:count])
	g.waiting = slices.Delete(g.waiting, 0, count)
	for _, each := range batch {
		each.shares = count > 1
	}
	return batch
}

func (g *gathering) sendTogether(batch []*single) {
	ctx, cancel := sharedContext(batch)
	defer cancel()
	messages := make([]*commonv1.Message, len(batch))
	for place, each := range batch {
		messages[place] = each.message
	}
	last := batch[len(batch)-1]
	receipts, err := g.send(ctx, last.target, last.address, messages)
	if err == nil {
		for place, each := range batch {
			each.outcome <- outcome{receipt: receipts[place]}
		}
		return
	}
	failure := errorOf(err, last.address)
	for _, each := range batch {
		if len(batch) == 1 || failure.OutcomeUnknown || failure.passing() {
			own := *failure // Whoever gets an error may add to it.
			each.outcome <- outcome{err: &own}
		} else { // One of them may be refused and not the others.
			g.sendTogether([]*single{each})
		}
	}
}

// sharedContext lasts as long as somebody waits; each ends its own wait before.
func sharedContext(batch []*single) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return context.WithCancel(batch[0].ctx)
	}
	var end time.Time
	for _, each := range batch {
		if deadline, _ := each.ctx.Deadline(); deadline.After(end) {
			end = deadline
		}
	}
	return context.WithDeadline(context.WithoutCancel(batch[0].ctx), end)
}
