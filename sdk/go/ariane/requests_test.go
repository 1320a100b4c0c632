package ariane

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

const repliesBegin = 7

// SendMessages takes requests; what answers them is the test.
func (p *process) SendMessages(_ context.Context, request *brokerv1.SendMessagesRequest) (*brokerv1.SendMessagesResponse, error) {
	answer := &brokerv1.SendMessagesResponse{}
	for _, each := range request.Messages {
		answer.Messages = append(answer.Messages, &brokerv1.SentMessage{UniqueId: each.UniqueId})
		p.requests <- each
	}
	return answer, nil
}

func (p *process) ListQueueBounds(ctx context.Context, _ *brokerv1.ListQueueBoundsRequest) (*brokerv1.ListQueueBoundsResponse, error) {
	if err := p.bounds(ctx); err != nil {
		return nil, err
	}
	return &brokerv1.ListQueueBoundsResponse{Queues: []*brokerv1.QueueBounds{{MaxQueueOffset: repliesBegin, LogEpoch: 3}}}, nil
}

// PullMessages hands out one reply for each pull.
func (p *process) PullMessages(ctx context.Context, request *brokerv1.PullMessagesRequest) (*brokerv1.PullMessagesResponse, error) {
	at := request.Positions[0]
	p.mu.Lock()
	p.pulls = append(p.pulls, request)
	p.mu.Unlock()
	select {
	case reply := <-p.replies:
		found := &brokerv1.QueueMessages{NextQueueOffset: at.QueueOffset + 1, LogEpoch: at.LogEpoch, Messages: []*commonv1.Message{reply}}
		return &brokerv1.PullMessagesResponse{Queues: []*brokerv1.QueueMessages{found}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func replyTo(request *commonv1.Message, body string) *commonv1.Message {
	return &commonv1.Message{Body: []byte(body), ReplyAddress: request.ReplyAddress}
}

// request makes a request, whose end comes by the channel.
func request(ctx context.Context, producer *Producer, body string) <-chan outcomeOfRequest {
	ended := make(chan outcomeOfRequest, 1)
	go func() {
		reply, err := producer.Request(ctx, Message{Topic: topic, Body: []byte(body)})
		ended <- outcomeOfRequest{string(reply.Body), err}
	}()
	return ended
}

type outcomeOfRequest struct {
	body string
	err  error
}

func TestEachRequestGetsItsOwnFirstReply(t *testing.T) {
	broker := start(t, "broker-a")
	own := client(t, start(t, "", broker))
	producer := NewProducer(own)
	first := request(context.Background(), producer, "1")
	asked := []*commonv1.Message{<-broker.requests}
	second := request(context.Background(), producer, "2")
	asked = append(asked, <-broker.requests)
	stranger := &commonv1.Message{ReplyAddress: &commonv1.ReplyAddress{CorrelationId: "unknown"}}
	for _, each := range []*commonv1.Message{stranger, replyTo(asked[1], "to 2"), replyTo(asked[1], "late"), replyTo(asked[0], "to 1")} {
		broker.replies <- each
	}
	for body, ended := range map[string]<-chan outcomeOfRequest{"to 1": first, "to 2": second} {
		if got := <-ended; got.err != nil || got.body != body {
			t.Fatal(got)
		}
	}
	if len(own.inbox.waiting) != 0 {
		t.Fatal("requests that have their replies are kept")
	}
	for _, each := range asked {
		if each.ReplyAddress.ClientId != own.id || each.ReplyAddress.TimeToLive.AsDuration() <= 0 {
			t.Fatal(each.ReplyAddress)
		}
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	for number, pull := range broker.pulls {
		// From the end on that there was before the first request, one place after the other.
		at := pull.Positions[0]
		if at.QueueOffset != int64(repliesBegin+number) || at.LogEpoch != 3 || pull.Subscriptions[0].Filter.Text != own.id {
			t.Fatal(number, pull)
		}
	}
}

func TestTheTopicOfRepliesIsMadeWhereItsBrokersAreAway(t *testing.T) {
	broker := start(t, "broker-a")
	nameServer := start(t, "", broker)
	own := client(t, nameServer)
	if _, err := own.Route(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	nameServer.route = func() error {
		if nameServer.asked("brokers") == 0 { // It is made at all of them.
			return status.ErrorProto(saidOf("ROUTE_NOT_FOUND", "away_brokers"))
		}
		return nil
	}
	ended := request(t.Context(), NewProducer(own), "x")
	select {
	case asked := <-broker.requests:
		broker.replies <- replyTo(asked, "y")
	case got := <-ended:
		t.Fatal(got)
	}
	if got := <-ended; got.err != nil || got.body != "y" {
		t.Fatal(got)
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	broker := start(t, "broker-a")
	own := client(t, start(t, "", broker))
	spans := &recorder{make(chan string, 3)}
	own.options.Tracer = spans
	producer := NewProducer(own)
	ctx, cancel := context.WithCancel(context.Background())
	ended := request(ctx, producer, "1")
	<-broker.requests
	cancel()
	var failure *Error
	if got := <-ended; !errors.Is(got.err, context.Canceled) || !errors.As(got.err, &failure) || !failure.OutcomeUnknown {
		t.Fatal(got)
	}
	<-spans.ended
	late := newLateContext()
	ended = request(late, producer, "2")
	<-spans.ended // The send is over.
	close(late.passed)
	got := <-ended
	if !errors.Is(got.err, context.DeadlineExceeded) || !errors.As(got.err, &failure) || !failure.OutcomeUnknown || failure.Reason != ReasonRequestTimeout {
		t.Fatal(got)
	}
	own.inbox.mu.Lock()
	defer own.inbox.mu.Unlock()
	if len(own.inbox.waiting) != 0 {
		t.Fatal("requests that have ended are kept")
	}
}

// lateContext is one whose deadline passes when a test says so.
type lateContext struct {
	context.Context
	passed chan struct{}
}

func newLateContext() lateContext { return lateContext{context.Background(), make(chan struct{})} }

func (c lateContext) Deadline() (time.Time, bool) { return time.Now().Add(patience), true }

func (c lateContext) Done() <-chan struct{} { return c.passed }

func (c lateContext) Err() error {
	select {
	case <-c.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestARequestThatWasNotSentSaysSo(t *testing.T) {
	broker := start(t, "broker-a")
	asked := make(chan struct{}, 1)
	broker.bounds = func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	own := client(t, start(t, "", broker))
	own.options.TryTimeout = patience
	producer := NewProducer(own)
	late := newLateContext()
	ended := request(late, producer, "1")
	<-asked
	close(late.passed)
	var failure *Error
	got := <-ended
	if !errors.As(got.err, &failure) || failure.OutcomeUnknown || failure.Reason != ReasonRequestTimeout {
		t.Fatal(got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended = request(ctx, producer, "2")
	cancel()
	if got := <-ended; !errors.Is(got.err, context.Canceled) || !errors.As(got.err, &failure) || failure.OutcomeUnknown {
		t.Fatal(got)
	}
	if len(broker.requests) > 0 {
		t.Fatal("it was sent")
	}
}

func TestARequestWhoseReplyNobodyWouldHearIsNotSent(t *testing.T) {
	broker := start(t, "broker-a")
	both := make(chan struct{})
	broker.bounds = func(context.Context) error {
		<-both
		return status.Error(codes.Unknown, "broken")
	}
	producer := NewProducer(client(t, start(t, "", broker)))
	first := request(context.Background(), producer, "1")
	second := request(context.Background(), producer, "2")
	close(both)
	var failures [2]*Error
	for place, ended := range []<-chan outcomeOfRequest{first, second} {
		if got := <-ended; !errors.As(got.err, &failures[place]) || failures[place].Code != codes.Unknown || failures[place].OutcomeUnknown {
			t.Fatal(got)
		}
	}
	if failures[0] == failures[1] {
		t.Fatal("two have one error")
	}
	if len(broker.requests) > 0 || len(broker.pulls) > 0 {
		t.Fatal("it was sent, or replies are read from the beginning")
	}
}

func TestARequestIsNotDelayed(t *testing.T) {
	producer := NewProducer(client(t, start(t, "")))
	if _, err := producer.Request(context.Background(), Message{Topic: topic, DeliverAt: time.Now()}); err == nil {
		t.Fatal("it would be late")
	}
}

func TestAClientThatIsClosedSaysNothingOfItsReplies(t *testing.T) {
	broker := start(t, "broker-a")
	own := client(t, start(t, "", broker))
	var said bytes.Buffer
	own.options.Logger = slog.New(slog.NewTextHandler(&said, nil))
	ended := request(context.Background(), NewProducer(own), "1")
	<-broker.requests
	_ = own.Close()
	if <-ended; said.Len() > 0 {
		t.Fatal(said.String())
	}
}

func TestWhoWaitsForAReplyHearsThatTheClientIsClosed(t *testing.T) {
	broker := start(t, "broker-a")
	own := client(t, start(t, "", broker))
	producer := NewProducer(own)
	ended := request(context.Background(), producer, "1")
	<-broker.requests
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	var failure *Error
	if got := <-ended; !errors.Is(got.err, ErrClosed) || !errors.As(got.err, &failure) || !failure.OutcomeUnknown {
		t.Fatal(got)
	}
	if got := <-request(context.Background(), producer, "2"); !errors.Is(got.err, ErrClosed) || errors.As(got.err, &failure) && failure.OutcomeUnknown {
		t.Fatal(got)
	}
}

func TestOnlyRequestsAreAnswered(t *testing.T) {
	producer := NewProducer(client(t, start(t, "", start(t, "broker-a"))))
	if _, err := producer.Reply(context.Background(), Delivery{}, Message{}); ReasonOf(err) != "NO_REQUEST" {
		t.Fatal(err)
	}
}

// recorder keeps what spans are begun and how they end.
type recorder struct{ ended chan string }

func (r *recorder) Begin(ctx context.Context, operation Operation) (context.Context, map[string]string, func(map[string]any, error)) {
	return ctx, map[string]string{traceParent: "00-00000000000000000000000000000001-0000000000000002-01"}, func(known map[string]any, _ error) {
		failed, _ := known[errorType].(string)
		r.ended <- operation.Name + ": " + failed
	}
}

func TestASpanEndsWhateverItsListenerDoes(t *testing.T) {
	spans := &recorder{make(chan string, 3)}
	waiter := consumer(t, client(t, start(t, "")))
	waiter.client.options.Tracer = spans
	failures := []Listener{
		func(context.Context, Delivery) error { panic("fire") },
		func(context.Context, Delivery) error { runtime.Goexit(); return nil },
		func(context.Context, Delivery) error { return closedError() },
	}
	for _, each := range failures {
		_ = listened(context.Background(), Delivery{Message: Message{Topic: topic}}, waiter.tracedListener(each))
	}
	wanted := []string{"process orders: *errors.errorString", "process orders: *errors.errorString", "process orders: CLIENT_NOT_RUNNING"}
	if found := []string{<-spans.ended, <-spans.ended, <-spans.ended}; !slices.Equal(found, wanted) {
		t.Fatal(found)
	}
}

func TestAPackedMessageCarriesItsSpanAndTellsTheBroker(t *testing.T) {
	broker := start(t, "broker-a")
	own := client(t, start(t, "", broker))
	own.options.Tracer = &recorder{make(chan string, 3)}
	message := Message{Topic: topic, Properties: map[string]string{"color": "red"}}
	send(t, NewProducer(own), message)
	if len(message.Properties) > 1 {
		t.Fatal("the properties of the application are changed")
	}
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if !slices.Equal(broker.parents, []string{"00-00000000000000000000000000000001-0000000000000002-01"}) {
		t.Fatal(broker.parents)
	}
}
