package ariane

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

func TestAMessageThatAListenerDoesNotFinishIsToldOfAndAgainAfterTwiceTheTime(t *testing.T) {
	had := longWork{group: "waiters"}
	begin := time.Unix(1000, 0)
	delivery := func(id string) *Delivery {
		return &Delivery{Message: Message{Topic: "orders", ID: id}, BrokerName: "broker-a", QueueID: 3}
	}
	end := had.begin(delivery("first"), begin)
	had.begin(delivery("second"), begin.Add(30*time.Second))
	of := func(seconds int) string { return had.look(begin.Add(time.Duration(seconds) * time.Second)) }
	for _, quiet := range []int{0, 59} {
		if text := of(quiet); text != "" {
			t.Fatalf("after %d s: %s", quiet, text)
		}
	}
	const first = "orders@broker-a#3 of group waiters: no progress for 61 s; the listener has 2 messages, the oldest is first"
	if text := of(61); text != first {
		t.Fatal(text)
	}
	for _, quiet := range []int{71, 119} {
		if text := of(quiet); text != "" {
			t.Fatalf("after %d s again: %s", quiet, text)
		}
	}
	if of(121) == "" {
		t.Fatal("it is told of once only")
	}
	end()
	const second = "orders@broker-a#3 of group waiters: no progress for 92 s; the listener has 1 message, the oldest is second"
	if text := of(122); text != second {
		t.Fatal(text)
	}
}

// nothing is an error whose text cannot be had where there is none.
type nothing struct{ text string }

func (n *nothing) Error() string { return n.text }

func TestAMessageIsSettledWhateverItsListenerDoes(t *testing.T) {
	failures := map[string]func() error{
		"panic":        func() error { panic("fire") },
		"end":          func() error { runtime.Goexit(); return nil },
		"no error":     func() error { var none *nothing; return none },
		"not UTF-8":    func() error { return errors.New("\xff") },
		"a long cause": func() error { return errors.New(strings.Repeat("x", 5000)) },
	}
	broker := start(t, "broker-a")
	broker.receive = func(ctx context.Context) []string {
		if broker.count("receive") == 1 {
			return slices.Collect(maps.Keys(failures))
		}
		<-ctx.Done()
		return nil
	}
	waiter := consumer(t, client(t, start(t, "", broker)))
	ended := make(chan error, 1)
	go func() {
		ended <- waiter.Listen(context.Background(), 2, func(_ context.Context, delivery Delivery) error {
			return failures[string(delivery.Body)]()
		})
	}()
	for settled := 0; settled < len(failures); time.Sleep(time.Millisecond) {
		broker.mu.Lock()
		settled = len(broker.failed)
		broker.mu.Unlock()
	}
	waiter.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{
		"panic": "panic: fire", "end": "the listener ended its goroutine", "no error": "<nil>", "not UTF-8": "\uFFFD",
		"a long cause": strings.Repeat("x", causeMax),
	}
	if !maps.Equal(broker.failed, wanted) {
		t.Fatal(broker.failed)
	}
}

func TestACheckerThatFailsInAnyWayDoesNotKnow(t *testing.T) {
	failures := map[string]func() (Outcome, error){
		"fire":   func() (Outcome, error) { panic("fire") },
		"<nil>":  func() (Outcome, error) { var none *nothing; return Commit, none },
		"\uFFFD": func() (Outcome, error) { return Commit, errors.New("\xff") },
	}
	for cause, checker := range failures {
		producer := &TransactionProducer{checker: func(context.Context, Message) (Outcome, error) { return checker() }}
		check := &brokerv1.TransactionCheck{Message: &commonv1.Message{Topic: topic}}
		answer := producer.answer(context.Background(), check)
		if answer.Cause != cause || answer.Outcome != Unknown.wire() {
			t.Fatal(answer)
		}
	}
}
