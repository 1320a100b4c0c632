package ariane

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
	namesrvv1 "ariane.mq/go/arianepb/namesrv/v1"
)

const topic = "orders"

// patience is for slow machines; what should take no time gets promptly.
const (
	patience = 30 * time.Second
	promptly = 5 * time.Second
)

// process is a name server, a broker, or both, that says what a test wants.
type process struct {
	namesrvv1.UnimplementedRouteServiceServer
	brokerv1.UnimplementedSendServiceServer
	brokerv1.UnimplementedReceiveServiceServer
	brokerv1.UnimplementedPullServiceServer

	name    string
	address string
	queues  int32
	level   commonv1.AcknowledgedLevel
	server  *grpc.Server
	receive func(context.Context) []string // Bodies of what comes with one call.
	// acknowledge is what a send waits for, once it is stored, before it is acknowledged.
	acknowledge func(context.Context)
	bounds      func(context.Context) error // What the bounds of queues wait for.
	route       func() error                // What routes are refused with.
	refuse      error                       // What sends are refused with.
	requests    chan *commonv1.Message
	replies     chan *commonv1.Message

	mu      sync.Mutex
	brokers []*process
	present []*process // Those that are listed.
	replica bool       // Whether routes have it as a replica without a primary.
	counts  map[string]int
	sent    []string
	parents []string // Spans of packed messages.
	pulls   []*brokerv1.PullMessagesRequest
	calls   []int // Messages of each call of senders.
	settled []string
	failed  map[string]string // What failed, each with its cause.
	shown   []string          // What was shown to others at once.
	handed  []string          // Bodies of what was received, by their offsets.
}

func start(t *testing.T, name string, brokers ...*process) *process {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		name: name, address: listener.Addr().String(), queues: 1, server: grpc.NewServer(), brokers: brokers, counts: map[string]int{},
		failed:      map[string]string{},
		receive:     func(ctx context.Context) []string { <-ctx.Done(); return nil },
		acknowledge: func(context.Context) {},
		bounds:      func(context.Context) error { return nil },
		route:       func() error { return nil },
		requests:    make(chan *commonv1.Message, 16),
		replies:     make(chan *commonv1.Message, 16),
	}
	namesrvv1.RegisterRouteServiceServer(p.server, p)
	brokerv1.RegisterSendServiceServer(p.server, p)
	brokerv1.RegisterReceiveServiceServer(p.server, p)
	brokerv1.RegisterPullServiceServer(p.server, p)
	go func() { _ = p.server.Serve(listener) }()
	t.Cleanup(p.server.Stop)
	return p
}

// count counts something that is asked, and tells how often it was.
func (p *process) count(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
	return p.counts[what]
}

// asked tells how often that was.
func (p *process) asked(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[what]
}

func (p *process) GetRoute(context.Context, *namesrvv1.GetRouteRequest) (*namesrvv1.GetRouteResponse, error) {
	p.count("route")
	if err := p.route(); err != nil {
		return nil, err
	}
	route := &namesrvv1.Route{Topic: topic}
	for _, broker := range p.brokers {
		id := int64(0)
		if broker.replica {
			id = 1
		}
		route.Brokers = append(route.Brokers, &namesrvv1.BrokerRoute{
			BrokerName: broker.name, Addresses: map[int64]string{id: broker.address},
			WriteQueueCount: broker.queues, ReadQueueCount: broker.queues,
			Permission: namesrvv1.TopicPermission_TOPIC_PERMISSION_READ_WRITE,
		})
	}
	return &namesrvv1.GetRouteResponse{Route: route}, nil
}

func (p *process) ListBrokers(context.Context, *namesrvv1.ListBrokersRequest) (*namesrvv1.ListBrokersResponse, error) {
	p.count("brokers")
	said := &namesrvv1.ListBrokersResponse{}
	for _, broker := range p.present {
		said.Brokers = append(said.Brokers, &namesrvv1.BrokerLiveness{
			Identity: &namesrvv1.BrokerIdentity{BrokerName: broker.name, Address: broker.address},
		})
	}
	return said, nil
}

func (p *process) GetMessageGroupQueue(context.Context, *namesrvv1.GetMessageGroupQueueRequest) (*namesrvv1.GetMessageGroupQueueResponse, error) {
	p.count("group")
	first := p.brokers[0]
	return &namesrvv1.GetMessageGroupQueueResponse{
		Queue: &commonv1.MessageQueue{Topic: topic, BrokerName: first.name}, Address: first.address,
	}, nil
}

func (p *process) AppendRecords(ctx context.Context, request *brokerv1.AppendRecordsRequest) (*brokerv1.AppendRecordsResponse, error) {
	if p.refuse != nil {
		return nil, p.refuse
	}
	var bodies []string
	for rest := request.TableRecords; len(rest) > 0; rest = rest[binary.BigEndian.Uint32(rest):] {
		body := string(rest[recordHeaderBytes:][:binary.BigEndian.Uint32(rest[recordHeaderBytes-4:])])
		if body == "bad" {
			return nil, status.Error(codes.InvalidArgument, "no message")
		}
		bodies = append(bodies, body)
	}
	p.mu.Lock()
	p.calls = append(p.calls, len(bodies))
	p.sent = append(p.sent, bodies...)
	p.parents = append(p.parents, request.TraceParents...)
	acknowledge := p.acknowledge
	p.mu.Unlock()
	acknowledge(ctx)
	return &brokerv1.AppendRecordsResponse{
		TableResult: &brokerv1.AppendTableResult{FirstQueueOffsets: make([]byte, 8), AcknowledgedLevel: p.level},
	}, nil
}

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

// stored waits until the broker has had so many calls of senders.
func (p *process) stored(calls int) []int {
	for {
		p.mu.Lock()
		found := slices.Clone(p.calls)
		p.mu.Unlock()
		if len(found) >= calls {
			return found
		}
		time.Sleep(time.Millisecond)
	}
}

func (p *process) ReceiveRecords(ctx context.Context, _ *brokerv1.ReceiveRecordsRequest) (*brokerv1.ReceiveRecordsResponse, error) {
	queue := &brokerv1.ReceivedRecords{Topic: topic, Receipt: []byte(p.name), Attempts: make([]byte, numberBytes)}
	bodies := p.receive(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, body := range bodies {
		record := appendHeader(nil, &commonv1.Message{Topic: topic, Body: []byte(body)})
		record = binary.BigEndian.AppendUint16(record, 0) // It has no properties.
		binary.BigEndian.PutUint32(record, uint32(len(record)))
		binary.BigEndian.PutUint64(record[20:], uint64(len(p.handed)))
		queue.RecordSizes = binary.LittleEndian.AppendUint32(queue.RecordSizes, uint32(len(record)))
		queue.Records = append(queue.Records, record...)
		p.handed = append(p.handed, body)
	}
	return &brokerv1.ReceiveRecordsResponse{Queues: []*brokerv1.ReceivedRecords{queue}}, nil
}

func (p *process) SettleRecords(_ context.Context, request *brokerv1.SettleRecordsRequest) (*brokerv1.SettleRecordsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := &brokerv1.SettleRecordsResponse{}
	for _, each := range request.Settlements {
		for ranges := each.Ranges; len(ranges) > 0; ranges = ranges[16:] {
			first, count := binary.LittleEndian.Uint64(ranges), binary.LittleEndian.Uint64(ranges[8:])
			bodies := p.handed[first : first+count]
			switch outcome := each.Outcome.(type) {
			case nil:
				p.settled = append(p.settled, bodies...)
			case *brokerv1.RecordSettlement_Nack:
				for _, body := range bodies {
					p.failed[body] = outcome.Nack.Cause
				}
			case *brokerv1.RecordSettlement_InvisibleDuration:
				if outcome.InvisibleDuration.AsDuration() == 0 {
					p.shown = append(p.shown, bodies...)
				}
			}
		}
		answer.Results = append(answer.Results, &brokerv1.SettledRecords{})
	}
	return answer, nil
}

func client(t *testing.T, nameServers ...*process) *Client {
	t.Helper()
	addresses := make([]string, len(nameServers))
	for place, each := range nameServers {
		addresses[place] = each.address
	}
	made, err := NewClient(addresses, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func consumer(t *testing.T, of *Client) *Consumer {
	t.Helper()
	made, err := NewConsumer(of, ConsumerOptions{Group: "waiters", Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func bodies(deliveries []Delivery) []string {
	var found []string
	for _, each := range deliveries {
		found = append(found, string(each.Body))
	}
	return found
}

// send sends what must not take long.
func send(t *testing.T, producer *Producer, message Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), promptly)
	defer cancel()
	if _, err := producer.Send(ctx, message); err != nil {
		t.Fatal(err)
	}
}

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
