package ariane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// Outcome is how a transaction ended.
type Outcome int

// The outcomes that a checker may answer with.
const (
	// Unknown lets the cluster ask again later.
	Unknown Outcome = iota
	Commit
	Rollback
)

func (o Outcome) wire() brokerv1.TransactionOutcome {
	return brokerv1.TransactionOutcome(o + 1)
}

// Checker is asked how the transaction of a message ended, when its end never came: the producer died
// between, or the call was lost. It may be asked in any process of the producer group.
type Checker func(ctx context.Context, message Message) (Outcome, error)

// TransactionProducer sends messages that become visible when their transactions commit. Close it at
// the end.
type TransactionProducer struct {
	client   *Client
	id       string
	group    string
	checker  Checker
	ctx      context.Context
	cancel   context.CancelFunc
	more     chan struct{}   // Says that topics has more.
	attached map[string]bool // Brokers that may ask, by address; kept by watch alone.

	mu     sync.Mutex
	topics map[string]bool
}

// Transaction is one message without an outcome.
type Transaction struct {
	producer *TransactionProducer
	broker   string
	message  *commonv1.Message
}

// NewTransactionProducer makes a producer of a group, which the cluster asks by checker: the brokers of these
// topics from the beginning, those of others once a message was sent there.
func NewTransactionProducer(ctx context.Context, client *Client, group string, topics []string, checker Checker) (*TransactionProducer, error) {
	life, cancel := context.WithCancel(context.Background())
	p := &TransactionProducer{
		client: client, id: client.id + "@" + newID()[:8], group: group, checker: checker,
		ctx: life, cancel: cancel, more: make(chan struct{}, 1), attached: map[string]bool{}, topics: map[string]bool{},
	}
	for _, topic := range topics {
		if _, err := client.Route(ctx, topic); err != nil {
			cancel()
			return nil, err
		}
		p.topics[topic] = true
	}
	go p.watch()
	return p, nil
}

// askFor has the brokers of a topic ask this producer.
func (p *TransactionProducer) askFor(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.topics[topic] {
		p.topics[topic] = true
		select {
		case p.more <- struct{}{}:
		default: // It is about to look anyhow.
		}
	}
}

// Close ends the listening; others of the group are asked from then on.
func (p *TransactionProducer) Close() { p.cancel() }

// Begin stores a message that nobody sees until the transaction commits.
func (p *TransactionProducer) Begin(ctx context.Context, message Message) (*Transaction, error) {
	if p.ctx.Err() != nil {
		return nil, closedError()
	}
	if err := message.check(); err != nil {
		return nil, err
	}
	if !message.DeliverAt.IsZero() {
		return nil, errors.New("ariane: the message of a transaction cannot be delayed")
	}
	wire := message.wire(commonv1.MessageType_MESSAGE_TYPE_TRANSACTION, p.client.options.Compression)
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	target, _, err := p.client.choose(ctx, message.Topic, message.Group)
	if err != nil {
		return nil, err
	}
	p.askFor(message.Topic)
	half := &brokerv1.SendMessagesRequest{
		Topic: message.Topic, QueueId: &target.id, HalfGroup: p.group, Messages: []*commonv1.Message{wire},
	}
	// To repeat is harmless, also when nobody knows what became of it: its id makes it one message.
	err = p.client.onPrimary(ctx, target.broker, []string{target.topic}, func(ctx context.Context, connection *grpc.ClientConn) error {
		_, err := brokerv1.NewSendServiceClient(connection).SendMessages(ctx, half)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Transaction{p, target.broker, wire}, nil
}

// Commit makes the message visible. Again is harmless.
func (t *Transaction) Commit(ctx context.Context) error { return t.end(ctx, Commit) }

// Rollback lets the message never become visible. Again is harmless.
func (t *Transaction) Rollback(ctx context.Context) error { return t.end(ctx, Rollback) }

// ID is the transaction's.
func (t *Transaction) ID() string { return t.message.UniqueId }

func (t *Transaction) end(ctx context.Context, outcome Outcome) error {
	end := &brokerv1.TransactionToEnd{
		Topic: t.message.Topic, TransactionId: t.ID(), UniqueId: t.message.UniqueId,
		Outcome: outcome.wire(), ProducerGroup: t.producer.group,
	}
	request := &brokerv1.UpdateTransactionsRequest{Ends: []*brokerv1.TransactionToEnd{end}}
	return t.producer.client.onPrimary(ctx, t.broker, []string{end.Topic}, func(ctx context.Context, connection *grpc.ClientConn) error {
		answer, err := brokerv1.NewTransactionServiceClient(connection).UpdateTransactions(ctx, request)
		if err != nil {
			return err
		}
		for _, each := range answer.Ends {
			if each.Error != nil {
				return status.ErrorProto(each.Error)
			}
		}
		return nil
	})
}

// watch keeps a stream open to every broker of the topics, over which it asks.
func (p *TransactionProducer) watch() {
	ended := make(chan string)
	for {
		p.mu.Lock()
		topics := slices.Collect(maps.Keys(p.topics))
		p.mu.Unlock()
		for _, topic := range topics {
			route, err := p.client.Route(p.ctx, topic)
			if err != nil {
				continue // The next look may tell.
			}
			for _, broker := range route.Brokers {
				address := broker.Addresses[0]
				if address == "" || p.attached[address] {
					continue
				}
				p.attached[address] = true
				go func() {
					_ = p.listen(address, broker.BrokerName) // Whatever ended it: the loop attaches anew.
					select {
					case ended <- address:
					case <-p.ctx.Done():
					}
				}()
			}
		}
		select {
		case address := <-ended:
			delete(p.attached, address)
			pause(p.ctx, 4, &Error{})
			for _, topic := range topics {
				p.client.forgetRoute(topic)
			}
		case <-p.more:
		case <-time.After(answerLife):
		case <-p.ctx.Done():
			return
		}
	}
}

// listen answers what one broker asks, until the stream ends.
func (p *TransactionProducer) listen(address, broker string) error {
	connection, err := p.client.broker(address, broker)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	stream, err := brokerv1.NewClientServiceClient(connection).Attach(ctx)
	if err != nil {
		return err
	}
	hello := &brokerv1.ClientHello{
		ClientId: p.id, Language: "go", SdkVersion: Version, ProducerGroups: []string{p.group},
	}
	var sending sync.Mutex
	send := func(request *brokerv1.AttachRequest) error {
		sending.Lock() // A stream takes no two at a time.
		defer sending.Unlock()
		return stream.Send(request)
	}
	_ = send(&brokerv1.AttachRequest{Content: &brokerv1.AttachRequest_Hello{Hello: hello}}) // Where it fails, Recv tells why.
	go func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(10 * time.Second):
				_ = send(&brokerv1.AttachRequest{Content: &brokerv1.AttachRequest_Heartbeat{Heartbeat: &brokerv1.ClientHeartbeat{}}})
			case <-ctx.Done():
			}
		}
	}()
	for {
		notice, err := stream.Recv()
		if err != nil {
			return err
		}
		if check := notice.GetTransactionCheck(); check != nil {
			go func() {
				_ = send(&brokerv1.AttachRequest{Content: &brokerv1.AttachRequest_TransactionAnswer{TransactionAnswer: p.answer(ctx, check)}})
			}()
		}
	}
}

func (p *TransactionProducer) answer(ctx context.Context, check *brokerv1.TransactionCheck) (answer *brokerv1.TransactionAnswer) {
	answer = &brokerv1.TransactionAnswer{
		TransactionId: check.TransactionId,
		Outcome:       Unknown.wire(),
	}
	if check.Message == nil {
		answer.Cause = "the broker did not say the message"
		return answer
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			answer.Cause = causeOf(panicked)
		}
	}()
	message, compression := messageOf(check.Message)
	if compression != Uncompressed {
		answer.Cause = "the body is damaged"
		return answer
	}
	outcome, err := p.checker(ctx, message)
	if err != nil {
		answer.Cause = causeOf(err)
		return answer
	}
	answer.Outcome = outcome.wire()
	return answer
}
