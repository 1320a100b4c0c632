package ariane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// What a broker does more with, or may refuse, is not packed: it says why.
func TestWhatIsUnusualGoesPlainly(t *testing.T) {
	usual := Message{Topic: topic, Tag: "a", Keys: []string{"k-1"}, Group: "g 7", Properties: map[string]string{"color": "rød"}}
	unusual := map[string]func(*Message){
		"delay":    func(m *Message) { m.Group, m.DeliverAt = "", time.Now() },
		"tag":      func(m *Message) { m.Tag = "a|b" },
		"all tags": func(m *Message) { m.Tag = "*" },
		"key":      func(m *Message) { m.Keys = []string{"k 1"} },
		"no key":   func(m *Message) { m.Keys = []string{""} },
		"letters":  func(m *Message) { m.Keys = []string{"ø"} },
		"group":    func(m *Message) { m.Group = "g\x01" },
		"system":   func(m *Message) { m.Properties = map[string]string{"REAL_TOPIC": "x"} },
		"control":  func(m *Message) { m.Properties = map[string]string{"a": "b\x02"} },
		"size":     func(m *Message) { m.Properties = map[string]string{"a": strings.Repeat("x", 31_000)} },
	}
	packable := func(message Message) bool {
		wire := message.wire(commonv1.MessageType_MESSAGE_TYPE_UNSPECIFIED, Uncompressed)
		return areUsual([]*commonv1.Message{wire})
	}
	if !packable(usual) {
		t.Error("a usual message is not packed")
	}
	for what, change := range unusual {
		message := usual
		if change(&message); packable(message) {
			t.Errorf("%s is packed", what)
		}
	}
}

func TestWhatIsSentWhileACallIsInFlightGoesTogether(t *testing.T) {
	broker := start(t, "broker-a")
	release := make(chan struct{})
	broker.acknowledge = func(context.Context) { <-release }
	producer := NewProducer(client(t, start(t, "", broker)))
	var senders sync.WaitGroup
	sendOne := func(id string) {
		senders.Go(func() {
			receipt, err := producer.Send(context.Background(), Message{Topic: topic, Body: []byte("x"), ID: id})
			if err != nil || receipt.ID != id {
				t.Error(receipt, err)
			}
		})
	}
	sendOne("first")
	broker.stored(1)
	for number := range 100 {
		sendOne(fmt.Sprint("later-", number))
	}
	for waiting := 0; waiting < 100; {
		producer.mu.Lock()
		gathered := producer.gatherings[queue{topic, "broker-a", -1}]
		producer.mu.Unlock()
		gathered.mu.Lock()
		waiting = len(gathered.waiting)
		gathered.mu.Unlock()
	}
	hasty, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var known *Error
	if _, err := producer.Send(hasty, Message{Topic: topic, Body: []byte("never")}); !errors.As(err, &known) || known.OutcomeUnknown {
		t.Fatal("it had not begun: ", err)
	}
	close(release)
	senders.Wait()
	if calls := broker.stored(2); !slices.Equal(calls, []int{1, 100}) {
		t.Fatal(calls)
	}
}

func TestOneThatSharesACallEndsInItsOwnTime(t *testing.T) {
	broker := start(t, "broker-a")
	release := make(chan struct{})
	broker.acknowledge = func(context.Context) { <-release }
	producer := NewProducer(client(t, start(t, "", broker)))
	begin := func(ctx context.Context, body string) chan error {
		outcome := make(chan error, 1)
		go func() {
			_, err := producer.Send(ctx, Message{Topic: topic, Body: []byte(body)})
			outcome <- err
		}()
		return outcome
	}
	first := begin(context.Background(), "first")
	broker.stored(1)
	patient := begin(context.Background(), "patient")
	ctx, giveUp := context.WithCancel(context.Background())
	hasty := begin(ctx, "hasty")
	for waiting := 0; waiting < 2; {
		gathered := producer.gatheringOf(queue{topic, "broker-a", 0}, "")
		gathered.mu.Lock()
		waiting = len(gathered.waiting)
		gathered.mu.Unlock()
	}
	release <- struct{}{}
	broker.stored(2)
	giveUp()
	var known *Error
	if err := <-hasty; !errors.As(err, &known) || !known.OutcomeUnknown || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	if err := errors.Join(<-first, <-patient); err != nil {
		t.Fatal(err)
	}
}

func TestOfThoseThatShareACallEachIsRefusedForItself(t *testing.T) {
	broker := start(t, "broker-a")
	producer := NewProducer(client(t, start(t, "", broker)))
	gathered := producer.gatheringOf(queue{topic, "broker-a", 0}, "")
	batch := make([]*single, 3)
	for place, body := range []string{"one", "bad", "two"} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		message := &commonv1.Message{Topic: topic, Body: []byte(body), UniqueId: body}
		batch[place] = &single{
			ctx: ctx, message: message, target: queue{topic, "broker-a", 0}, address: broker.address, outcome: make(chan outcome, 1),
		}
	}
	gathered.sendTogether(batch)
	var refused *Error
	if got := <-batch[1].outcome; !errors.As(got.err, &refused) || refused.Code != codes.InvalidArgument {
		t.Fatal(got.err)
	}
	for _, place := range []int{0, 2} {
		if got := <-batch[place].outcome; got.err != nil {
			t.Fatal(got.err)
		}
	}
}

func TestTenThousandSendsAtOnceAskForTheRouteOnce(t *testing.T) {
	nameServer := start(t, "", start(t, "broker-a"))
	producer := NewProducer(client(t, nameServer))
	var senders sync.WaitGroup
	for range 10_000 {
		senders.Go(func() {
			if _, err := producer.Send(context.Background(), Message{Topic: topic, Body: []byte("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	if times := nameServer.asked("route"); times != 1 {
		t.Fatal(times)
	}
}

func TestAnErrorTellsThatTheContextEnded(t *testing.T) {
	nobody := start(t, "")
	nobody.server.Stop()
	of := client(t, nobody)
	message := Message{Topic: topic, Body: []byte("x")}
	late, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := NewProducer(of).Send(late, message)
	var known *Error
	if !errors.As(err, &known) || known.OutcomeUnknown {
		t.Fatal(err)
	}
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, giveUp)
	if _, err = NewProducer(of).Send(ctx, message); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err = of.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = NewProducer(of).Send(context.Background(), message); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestWhatWasKnownHoldsWhileNameServersAreAway(t *testing.T) {
	broker := start(t, "broker-a")
	nameServers := []*process{start(t, "", broker), start(t, "", broker)}
	of := client(t, nameServers...)
	producer := NewProducer(of)
	plain := Message{Topic: topic, Body: []byte("plain")}
	grouped := Message{Topic: topic, Body: []byte("grouped"), Group: "table-7"}
	send(t, producer, plain)
	send(t, producer, grouped)
	for _, each := range nameServers {
		each.server.Stop()
	}
	of.forgetRoute(topic) // As when it is old.
	for range 20 {
		send(t, producer, plain)
		send(t, producer, grouped)
	}
	if len(broker.sent) != 42 {
		t.Fatal(broker.sent)
	}
}

func TestANameServerThatIsAwayIsNotAskedEachTime(t *testing.T) {
	broker := start(t, "broker-a")
	gone, there := start(t, "", broker), start(t, "", broker)
	gone.server.Stop()
	of := client(t, gone, there)
	for number := range 20 {
		if _, err := of.Route(context.Background(), fmt.Sprint(topic, number)); err != nil {
			t.Fatal(err)
		}
		if number > 0 && of.nameServer != 1 {
			t.Fatal("the one that is away is next again")
		}
	}
	if times := there.asked("route"); times != 20 {
		t.Fatal(times)
	}
}

func TestAGroupIsAskedForOnce(t *testing.T) {
	broker := start(t, "broker-a")
	nameServer := start(t, "", broker)
	producer := NewProducer(client(t, nameServer))
	for range 10 {
		send(t, producer, Message{Topic: topic, Body: []byte("x"), Group: "table-7"})
	}
	send(t, producer, Message{Topic: topic, Body: []byte("x"), Group: "table-8"})
	if groups, routes := nameServer.asked("group"), nameServer.asked("route"); groups != 2 || routes != 1 {
		t.Fatal(groups, routes)
	}
}

// A topic was deleted at the next primary before its producers heard of that one: name servers have no route of it.
func TestATopicThatWasDeletedBehindAChangeOfItsPrimaryIsSentToTheNextOne(t *testing.T) {
	for _, before := range []string{"refuses", "is gone"} {
		for why, follows := range map[string]bool{"topic": true, "warming_up": true, "queue_order": false, "away_brokers": false} {
			first, next := start(t, "broker-a"), start(t, "broker-a")
			nameServer := start(t, "", first)
			of := client(t, nameServer)
			of.options.CallTimeout = time.Second
			producer := NewProducer(of)
			send(t, producer, Message{Topic: topic, Body: []byte("one")})
			send(t, producer, Message{Topic: topic, Body: []byte("two"), Group: "table-7"})
			nameServer.present = []*process{start(t, "broker-b"), next}
			nameServer.route = func() error { return status.ErrorProto(saidOf("ROUTE_NOT_FOUND", why)) }
			first.refuse = status.ErrorProto(saidOf("BROKER_NOT_PRIMARY"))
			if before == "is gone" {
				first.server.Stop()
			}
			for _, group := range []string{"", "table-7"} {
				_, err := producer.Send(t.Context(), Message{Topic: topic, Body: []byte("three"), Group: group})
				if follows != (err == nil) || follows != (len(next.sent) > 0) {
					t.Errorf("%s, %s, group %q: %v, %v", before, why, group, err, next.sent)
				}
			}
		}
	}
}

func TestASendWhoseTimeIsOverBeforeItsCallIsSurelyNotStored(t *testing.T) {
	broker := start(t, "broker-a")
	producer := NewProducer(client(t, start(t, "", broker)))
	send(t, producer, Message{Topic: topic, Body: []byte("x")})
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, end := context.WithTimeout(context.Background(), -time.Second)
	defer end()
	for range 50 { // One of two that can go on is chosen at random.
		for _, ctx := range []context.Context{cancelled, late} {
			_, single := producer.Send(ctx, Message{Topic: topic, Body: []byte("y")})
			_, batch := producer.SendBatch(ctx, []Message{{Topic: topic, Body: []byte("y")}})
			for _, err := range []error{single, batch} {
				var known *Error
				if !errors.As(err, &known) || known.OutcomeUnknown || !errors.Is(err, ctx.Err()) {
					t.Fatal(err)
				}
			}
		}
	}
	if !slices.Equal(broker.sent, []string{"x"}) {
		t.Fatal(broker.sent)
	}
}

// A topic was deleted while nobody could write it: no broker would ever say so.
func TestATopicThatWasDeletedWhileItHadNoPrimaryIsGone(t *testing.T) {
	for why, gone := range map[string]bool{"topic": true, "warming_up": false, "queue_order": false, "away_brokers": false} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			broker := start(t, "broker-a")
			nameServer := start(t, "", broker)
			of := client(t, nameServer)
			of.options.CallTimeout = time.Second
			producer := NewProducer(of)
			one, grouped := Message{Topic: topic, Body: []byte("one")}, Message{Topic: topic, Body: []byte("two"), Group: "table-7"}
			send(t, producer, one)
			send(t, producer, grouped)
			broker.replica = true
			of.forgetRoute(topic)
			expect := func(message Message, reason string, retriable bool) {
				t.Helper()
				_, err := producer.Send(t.Context(), message)
				var known *Error
				if !errors.As(err, &known) || known.Reason != reason || known.Retriable != retriable || known.OutcomeUnknown {
					t.Errorf("group %q: %v instead of %s", message.Group, err, reason)
				}
			}
			expect(one, "TOPIC_NOT_WRITABLE", true)
			nameServer.route = func() error { return status.ErrorProto(saidOf("ROUTE_NOT_FOUND", why)) }
			of.forgetRoute(topic)
			if !gone {
				expect(one, "TOPIC_NOT_WRITABLE", true)
				expect(grouped, "ROUTE_NOT_FOUND", true)
				return
			}
			expect(one, "ROUTE_NOT_FOUND", false)
			expect(grouped, "ROUTE_NOT_FOUND", false)
			broker.replica, nameServer.route = false, func() error { return nil }
			send(t, producer, one)
			send(t, producer, grouped)
		})
	}
}

func TestABrokerThatIsAwayKeepsNoOtherFromHearing(t *testing.T) {
	gone, there := start(t, "broker-a"), start(t, "broker-b")
	waiter := consumer(t, client(t, start(t, "", gone, there)))
	gone.server.Stop()
	there.handed = []string{"1", "2"}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := waiter.Ack(ctx, Delivery{BrokerName: "broker-a"}, Delivery{BrokerName: "broker-b", Offset: 1})
	var known *Error
	if !errors.As(err, &known) || known.Peer != gone.address || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if !slices.Equal(there.settled, []string{"2"}) {
		t.Fatal(there.settled)
	}
}

func TestTheMessageOfATransactionIsNotDelayed(t *testing.T) {
	of := client(t, start(t, "", start(t, "broker-a")))
	producer, err := NewTransactionProducer(context.Background(), of, "tellers", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	message := Message{Topic: topic, DeliverAt: time.Now().Add(time.Hour)}
	if _, err = producer.Begin(context.Background(), message); err == nil || !strings.Contains(err.Error(), "delayed") {
		t.Fatal("its delay would be lost in silence")
	}
	producer.Close()
	if _, err = producer.Begin(context.Background(), Message{Topic: topic}); !errors.Is(err, ErrClosed) {
		t.Fatal("nobody would be asked how it ended: ", err)
	}
}
