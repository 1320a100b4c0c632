package ariane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
)

func TestReceiveEndsWithItsContextAndLosesNothing(t *testing.T) {
	arrive := make(chan string)
	broker := start(t, "broker-a")
	broker.receive = func(context.Context) []string { return []string{<-arrive} }
	waiter := consumer(t, client(t, start(t, "", broker)))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	if deliveries, err := waiter.Receive(ctx, patience); !errors.Is(err, context.Canceled) || deliveries != nil {
		t.Fatal(deliveries, err)
	}
	if _, err := waiter.Receive(ctx, patience); !errors.Is(err, context.Canceled) {
		t.Fatal("a loop around it would never end: ", err)
	}
	arrive <- "late"
	deliveries, err := waiter.Receive(context.Background(), patience)
	if err != nil || !slices.Equal(bodies(deliveries), []string{"late"}) {
		t.Fatal(deliveries, err)
	}
	if deliveries, err = waiter.Receive(context.Background(), 0); deliveries != nil || err != nil {
		t.Fatal("nothing is there: ", deliveries, err)
	}
	close(arrive)
}

func TestWhatCameAndNobodyTookGoesBackWhenTheConsumerIsClosed(t *testing.T) {
	brokers := []*process{start(t, "broker-a"), start(t, "broker-b")}
	for _, broker := range brokers {
		broker.receive = func(context.Context) []string { return []string{broker.name + "-1", broker.name + "-2"} }
	}
	waiter := consumer(t, client(t, start(t, "", brokers...)))
	found := map[string]bool{}
	deliveries, err := waiter.Receive(context.Background(), patience)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies(deliveries) {
		found[body] = true
	}
	for came := false; !came; time.Sleep(time.Millisecond) {
		waiter.mu.Lock()
		for _, asking := range waiter.pending {
			came = !asking
		}
		waiter.mu.Unlock()
	}
	waiter.Close()
	for _, broker := range brokers {
		for _, handle := range broker.shown {
			found[handle] = true
		}
	}
	if len(found) != 4 {
		t.Fatal(found)
	}
	if _, err = waiter.Receive(context.Background(), 0); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestReceiveAsksAgainAfterEveryEmptyHold(t *testing.T) {
	broker := start(t, "broker-a")
	broker.receive = func(context.Context) []string {
		if broker.count("receive") < 5000 {
			return nil
		}
		return []string{"at last"}
	}
	deliveries, err := consumer(t, client(t, start(t, "", broker))).Receive(context.Background(), patience)
	if err != nil || !slices.Equal(bodies(deliveries), []string{"at last"}) {
		t.Fatal(deliveries, err)
	}
}

func TestWhatOthersSeeAgainByNowIsNotGivenOut(t *testing.T) {
	broker := start(t, "broker-a")
	broker.receive = func(context.Context) []string {
		return []string{fmt.Sprint(broker.count("receive"))}
	}
	waiter := consumer(t, client(t, start(t, "", broker)))
	waiter.options.InvisibleDuration = 1 // Over when the answer comes.
	for broker.asked("receive") < 3 {
		if deliveries, err := waiter.Receive(context.Background(), 100*time.Millisecond); deliveries != nil || err != nil {
			t.Fatal(deliveries, err)
		}
	}
}

func TestWhoReceivesIsNotKeptWaitingByAnotherThatWorks(t *testing.T) {
	broker := start(t, "broker-a")
	arrive := make(chan string)
	broker.receive = func(ctx context.Context) []string {
		select {
		case body := <-arrive:
			return []string{body}
		case <-ctx.Done():
			return nil
		}
	}
	waiter := consumer(t, client(t, start(t, "", broker)))
	came := make(chan []Delivery)
	for range 2 { // Each receives once only, and works on it then.
		go func() {
			deliveries, _ := waiter.Receive(context.Background(), patience)
			came <- deliveries
		}()
	}
	for waiter.receiving.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	for _, body := range []string{"first", "second"} {
		select {
		case arrive <- body:
		case <-time.After(promptly):
			t.Fatal("nobody asks for the ", body)
		}
		if found := bodies(<-came); !slices.Equal(found, []string{body}) {
			t.Fatal(found)
		}
	}
}

func TestManyReceiveAtATimeAndEachMessageComesOnce(t *testing.T) {
	const messages = 200
	broker := start(t, "broker-a")
	broker.receive = func(ctx context.Context) []string {
		if number := broker.count("receive"); number <= messages {
			return []string{fmt.Sprint(number)}
		}
		<-ctx.Done()
		return nil
	}
	waiter := consumer(t, client(t, start(t, "", broker)))
	came := make(chan []Delivery)
	ctx, cancel := context.WithCancel(context.Background())
	var waiters sync.WaitGroup
	for range 8 {
		waiters.Go(func() {
			for ctx.Err() == nil {
				if deliveries, err := waiter.Receive(ctx, time.Second); err == nil {
					came <- deliveries
				}
			}
		})
	}
	found := map[string]bool{}
	for len(found) < messages {
		for _, body := range bodies(<-came) {
			if found[body] {
				t.Error("came twice: ", body)
			}
			found[body] = true
		}
	}
	cancel()
	go func() { waiters.Wait(); close(came) }()
	for deliveries := range came {
		if len(deliveries) > 0 {
			t.Error("more than were sent: ", deliveries)
		}
	}
}

func TestADamagedQueueOfAnAnswerTakesNoOtherWithIt(t *testing.T) {
	broker := start(t, "broker-a")
	broker.receive = func(context.Context) []string { return []string{"first", "second"} }
	broker.spoil = func(answer *brokerv1.ReceiveRecordsResponse) {
		whole := answer.Queues[0]
		broken := proto.CloneOf(whole)
		broken.Records[len(broken.Records)-1] ^= 0xFF // The end of its second record.
		answer.Queues = []*brokerv1.ReceivedRecords{whole, broken, whole}
	}
	waiter := consumer(t, client(t, start(t, "", broker)))
	deliveries, err := waiter.Receive(context.Background(), patience)
	if found := bodies(deliveries); err != nil || !slices.Equal(found, []string{"first", "second", "first", "first", "second"}) {
		t.Fatal(found, err)
	}
	broker.spoil = func(answer *brokerv1.ReceiveRecordsResponse) { answer.Queues[0].Records[0] ^= 0xFF }
	waiter = consumer(t, client(t, start(t, "", broker)))
	if deliveries, err = waiter.Receive(context.Background(), patience); deliveries != nil || ReasonOf(err) != "RECORD_CORRUPTED" {
		t.Fatal("nothing of it can be read: ", deliveries, err)
	}
}

func TestMoreOrFewerResultsThanSettlementsAreNoSuccess(t *testing.T) {
	broker := start(t, "broker-a")
	broker.receive = func(context.Context) []string { return []string{"first"} }
	waiter := consumer(t, client(t, start(t, "", broker)))
	deliveries, err := waiter.Receive(context.Background(), patience)
	if err != nil {
		t.Fatal(err)
	}
	for count := range 3 {
		broker.results = func([]*brokerv1.SettledRecords) []*brokerv1.SettledRecords {
			return make([]*brokerv1.SettledRecords, count)
		}
		err = waiter.Ack(context.Background(), deliveries...)
		var failure *Error
		if unknown := errors.As(err, &failure) && failure.OutcomeUnknown; unknown != (count != 1) || (err == nil) != (count == 1) {
			t.Error(count, err)
		}
	}
}

func TestWhatCameWaitsForNoNameServer(t *testing.T) {
	broker := start(t, "broker-a")
	arrive := make(chan string)
	broker.receive = func(ctx context.Context) []string {
		broker.count("receive")
		select {
		case body := <-arrive:
			return []string{body}
		case <-ctx.Done():
			return nil
		}
	}
	var silent atomic.Bool
	released := make(chan struct{})
	nameServer := start(t, "", broker)
	nameServer.route = func() error {
		if silent.Load() {
			<-released
		}
		return nil
	}
	asking := client(t, nameServer)
	asking.options.TryTimeout = patience
	waiter := consumer(t, asking)
	came := make(chan []Delivery)
	for range 2 {
		go func() {
			ctx, cancel := context.WithCancel(context.Background())
			deliveries, _ := waiter.Receive(ctx, patience)
			cancel() // What is asked for the other does not end by it.
			came <- deliveries
		}()
	}
	for waiter.receiving.Load() < 2 || broker.asked("receive") < 1 {
		time.Sleep(time.Millisecond)
	}
	for place, body := range []string{"first", "second"} {
		silent.Store(place == 0)
		asking.forgetRoute(topic)
		select {
		case arrive <- body:
		case <-time.After(promptly):
			t.Fatal("nobody asks for the ", body)
		}
		select {
		case deliveries := <-came:
			if found := bodies(deliveries); !slices.Equal(found, []string{body}) {
				t.Error(found)
			}
		case <-time.After(promptly):
			t.Error("who has it waits for a name server: ", body)
		}
		if place == 0 {
			close(released)
		}
	}
}
