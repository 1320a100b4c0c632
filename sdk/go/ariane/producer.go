package ariane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// Producer sends messages. Each is stored once although sends are repeated: batches carry numbers by
// which the broker knows them again.
type Producer struct {
	client *Client
	id     int64

	mu         sync.Mutex
	lanes      map[queue]*lane
	gatherings map[queue]*gathering
}

// queue is one queue of a topic, as producers name it.
type queue struct {
	topic, broker string
	id            int32
}

// lane is the stream of this producer to one queue: one batch at a time, numbered.
type lane struct {
	free  chan struct{}
	epoch int32
	next  int64
}

// NewProducer makes a producer. It needs no closing of its own.
func NewProducer(client *Client) *Producer {
	return &Producer{
		client:     client,
		id:         1 + rand.Int64N(1<<62),
		lanes:      map[queue]*lane{},
		gatherings: map[queue]*gathering{},
	}
}

// Send sends one message, and returns when it is as safe as its broker promises. Messages of a topic, or of
// its groups, that are sent while another is on its way to the same broker go on together.
func (p *Producer) Send(ctx context.Context, message Message) (Receipt, error) {
	return p.send(ctx, message, nil)
}

// send sends one message, whose reply goes to an address if there is one.
func (p *Producer) send(ctx context.Context, message Message, replyTo *commonv1.ReplyAddress) (Receipt, error) {
	receipts, err := p.client.traced(ctx, []Message{message}, ofSingle(message, replyTo), func(ctx context.Context, marked []Message) ([]Receipt, error) {
		receipt, err := p.sendSingle(ctx, marked[0], replyTo)
		return []Receipt{receipt}, err
	})
	return receipts[0], err
}

func (p *Producer) sendSingle(ctx context.Context, message Message, replyTo *commonv1.ReplyAddress) (Receipt, error) {
	wire, err := p.wireOf([]Message{message})
	if err != nil {
		return Receipt{}, err
	}
	wire[0].ReplyAddress = replyTo
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	return repeated(ctx, p.client, message.Topic, func() (Receipt, error) {
		target, address, err := p.client.choose(ctx, message.Topic, message.Group)
		if err != nil {
			return Receipt{}, err
		}
		return p.gatheringOf(target, message.Group).add(ctx, target, address, wire[0])
	})
}

// SendBatch sends messages of one topic, and of one group or none, to one queue: in order, and all of
// them or none.
func (p *Producer) SendBatch(ctx context.Context, messages []Message) ([]Receipt, error) {
	return p.client.traced(ctx, messages, ofBatch(messages), p.sendAll)
}

func (p *Producer) sendAll(ctx context.Context, messages []Message) ([]Receipt, error) {
	wire, err := p.wireOf(messages)
	if err != nil {
		return nil, err
	}
	topic, group := messages[0].Topic, messages[0].Group
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	return repeated(ctx, p.client, topic, func() ([]Receipt, error) {
		target, address, err := p.client.choose(ctx, topic, group)
		if err != nil {
			return nil, err
		}
		return p.sendTo(ctx, target, address, wire)
	})
}

func (p *Producer) wireOf(messages []Message) ([]*commonv1.Message, error) {
	if len(messages) == 0 {
		return nil, errors.New("ariane: a batch needs a message")
	}
	wire := make([]*commonv1.Message, len(messages))
	for position := range messages {
		message := messages[position]
		if message.Topic != messages[0].Topic || message.Group != messages[0].Group {
			return nil, errors.New("ariane: messages of a batch share their topic and their group")
		}
		if err := message.check(); err != nil {
			return nil, err
		}
		wire[position] = message.wire(commonv1.MessageType_MESSAGE_TYPE_UNSPECIFIED, p.client.options.Compression)
	}
	return wire, nil
}

// repeated has a send repeated that is surely not stored and may pass.
func repeated[A any](ctx context.Context, client *Client, topic string, send func() (A, error)) (A, error) {
	for repeats := 0; ; repeats++ {
		sent, err := send()
		if err == nil {
			return sent, nil
		}
		failure := errorOf(err, "")
		// What may be stored goes nowhere else, and what this queue refuses another may take.
		counted := failure.routing() && repeats >= routingRepeats
		if failure.OutcomeUnknown || counted || !failure.passing() || !pause(ctx, repeats, failure) {
			return sent, failure
		}
		client.forgetRoute(topic)
	}
}

const (
	routingRepeats = 5
	// requestBytesSure is what brokers take in a call however they are set.
	requestBytesSure = 4 << 20
)

// sendTo sends to one queue, and again to the same one while it is not known what became of it. An
// error that leaves the outcome known says that nothing is stored.
func (p *Producer) sendTo(
	ctx context.Context, target queue, address string, messages []*commonv1.Message,
) ([]Receipt, error) {
	line := p.laneOf(target)
	select {
	case line.free <- struct{}{}:
		defer func() { <-line.free }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // Also where both were so.
		failure := errorOf(ctx.Err(), address)
		failure.OutcomeUnknown = false
		return nil, failure
	}
	usual := areUsual(messages)
	var since time.Time // When it may have been stored first; zero while it surely is not.
	for repeats := 0; ; repeats++ {
		began := time.Now()
		receipts, err := p.trySend(ctx, line, target, address, messages, usual)
		if err == nil {
			line.next += int64(len(messages))
			return receipts, nil
		}
		failure := errorOf(err, address)
		if failure.Code == codes.ResourceExhausted && failure.Reason == "" {
			failure.judgeSize(messages)
		}
		if failure.Reason == "SEQUENCE_GAP" && (since.IsZero() || surelyMissing(failure, since)) {
			// The broker has no memory of what came before, and nothing of this is stored.
			line.restart()
			since = time.Time{}
			if repeats < routingRepeats {
				continue
			}
		}
		if failure.OutcomeUnknown && since.IsZero() {
			since = began
		}
		if since.IsZero() {
			return nil, failure
		}
		failure.OutcomeUnknown = true
		if may := failure.passing() || failure.unconfirmed(); !may || !pause(ctx, repeats, failure) {
			line.restart() // The broker refuses from now on what may still be on its way.
			return nil, failure
		}
		p.client.forgetRoute(target.topic)
		// Where nobody knows where the broker is now, it is where it was: it may come back.
		if now, err := p.client.brokerAddress(ctx, target.broker, target.topic); err == nil {
			address = now
		}
	}
}

func (p *Producer) trySend(
	ctx context.Context, line *lane, target queue, address string, messages []*commonv1.Message, usual bool,
) ([]Receipt, error) {
	connection, err := p.client.broker(address, target.broker)
	if err != nil {
		return nil, err
	}
	stub := brokerv1.NewSendServiceClient(connection)
	if usual {
		request := tableOf(target, p.id, line, messages)
		return within(ctx, p.client.options.TryTimeout, func(ctx context.Context) ([]Receipt, error) {
			answer, err := stub.AppendRecords(ctx, request)
			if err != nil {
				return nil, err
			}
			return storedOf(answer, target, messages)
		})
	}
	request := &brokerv1.SendMessagesRequest{
		Topic:    target.topic,
		QueueId:  &target.id,
		Messages: messages,
		Sequence: &brokerv1.ProducerSequence{
			ProducerId: p.id, ProducerEpoch: line.epoch, FirstSequence: line.next,
		},
	}
	return within(ctx, p.client.options.TryTimeout, func(ctx context.Context) ([]Receipt, error) {
		answer, err := stub.SendMessages(ctx, request)
		return receiptsOf(answer), err
	})
}

// judgeSize says of a call that gRPC refused because of its size that nothing of it is stored.
func (e *Error) judgeSize(messages []*commonv1.Message) {
	size := 0
	for _, message := range messages {
		size += proto.Size(message)
	}
	if size > requestBytesSure {
		e.Code, e.Reason, e.OutcomeUnknown = codes.InvalidArgument, ReasonMessageTooLarge, false
		e.Message = fmt.Sprintf("%s in one call: %d bytes are more than the broker takes; send fewer, or smaller ones",
			counted(len(messages), "message"), size)
	}
}

// restart begins a new stream: a larger epoch, from 0.
func (l *lane) restart() { l.epoch, l.next = l.epoch+1, 0 }

// surelyMissing says whether a gap shows that no try since then has stored anything.
func surelyMissing(gap *Error, since time.Time) bool {
	known, err := strconv.ParseInt(gap.Metadata["known_for_ms"], 10, 64)
	// A second is for clocks that do not run alike.
	return err == nil && time.Since(since)+time.Second < time.Duration(known)*time.Millisecond
}

func receiptsOf(answer *brokerv1.SendMessagesResponse) []Receipt {
	receipts := make([]Receipt, len(answer.GetMessages()))
	for position, sent := range answer.GetMessages() {
		receipts[position] = Receipt{
			ID:           sent.UniqueId,
			BrokerName:   sent.Position.GetBrokerName(),
			QueueID:      sent.Position.GetQueueId(),
			Offset:       sent.Position.GetQueueOffset(),
			Level:        answer.AcknowledgedLevel,
			RecallHandle: sent.RecallHandle,
			Duplicate:    answer.Duplicate,
		}
	}
	return receipts
}

// Recall takes back a message with a delivery time, by its receipt, and returns its id. Again is
// harmless.
func (p *Producer) Recall(ctx context.Context, topic string, receipt Receipt) (string, error) {
	request := &brokerv1.RecallMessageRequest{Topic: topic, RecallHandle: receipt.RecallHandle}
	var answer *brokerv1.RecallMessageResponse
	err := p.client.onPrimary(ctx, receipt.BrokerName, []string{topic}, func(ctx context.Context, connection *grpc.ClientConn) (err error) {
		answer, err = brokerv1.NewSendServiceClient(connection).RecallMessage(ctx, request)
		return err
	})
	return answer.GetUniqueId(), err
}

// choose picks a queue for messages that are surely not stored yet, and says where it is.
func (c *Client) choose(ctx context.Context, topic, group string) (target queue, address string, err error) {
	known, err := c.route(ctx, topic)
	if err != nil {
		return target, "", err
	}
	if known.denial != nil {
		c.forgetRoute(topic) // Whoever makes it anew is found at once.
		denial := *known.denial
		return target, "", &denial
	}
	if group != "" {
		if target, err = c.groupQueue(ctx, topic, group); err == nil {
			address, err = c.brokerAddress(ctx, target.broker, topic)
		}
		return target, address, err
	}
	if len(known.writable) == 0 {
		return target, "", &Error{
			Code: codes.PermissionDenied, Reason: "TOPIC_NOT_WRITABLE", Retriable: true,
			Message: fmt.Sprintf("no broker takes messages of topic %s now (ariane topic show %s)", topic, topic),
		}
	}
	chosen := known.writable[c.turn.Add(1)%uint64(len(known.writable))]
	return chosen.queue, chosen.address, nil
}

// gatheringOf is where single messages to a place gather: by broker, and by queue where they have groups.
func (p *Producer) gatheringOf(target queue, group string) *gathering {
	if group == "" {
		target.id = -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.gatherings[target]
	if known == nil {
		known = &gathering{send: p.sendTo}
		p.gatherings[target] = known
	}
	return known
}

func (p *Producer) laneOf(target queue) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.lanes[target]
	if known == nil {
		known = &lane{free: make(chan struct{}, 1)}
		p.lanes[target] = known
	}
	return known
}
