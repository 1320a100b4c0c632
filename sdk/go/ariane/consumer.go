package ariane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// ConsumerOptions say who receives, and what.
type ConsumerOptions struct {
	// Group shares the messages among its consumers.
	Group string
	// Topic to receive from; messages that are tried again come along.
	Topic string
	// Tags to receive, joined by "||"; empty or "*": all. Not with SQL.
	Tags string
	// SQL is a condition over properties. Empty: all.
	SQL string
	// More topics to receive from, each with a filter of its own.
	More []Subscription
	// ByPriority has messages of a higher priority handed out first; those of one Receive are in the order of their
	// queue.
	ByPriority bool
	// MaxMessages comes at most in one Receive. 0: 32.
	MaxMessages int
	// InvisibleDuration is how long others do not see what was received. 0: 60 s.
	InvisibleDuration time.Duration
}

// Subscription says what to receive of a topic.
type Subscription struct {
	Topic string
	// Tags and SQL are as in ConsumerOptions.
	Tags, SQL string
}

// Consumer receives messages and settles them. Any number may share a group.
type Consumer struct {
	client  *Client
	options ConsumerOptions
	topics  []string
	order   *brokerv1.ReceiveOrder

	ctx     context.Context // Ends with Close.
	cancel  context.CancelFunc
	arrived chan received

	mu      sync.Mutex
	pending map[string]bool // By address of a broker: whether it is being asked, or its answer waits.
	asking  sync.WaitGroup

	receiving atomic.Int64 // How many wait for messages.
	lost      atomic.Int64
}

type received struct {
	address    string
	deliveries []Delivery
	at         time.Time // When they came, or were all that came.
	err        error
}

// holdMax is how long a broker holds a call; one that went silent is noticed only after it.
const holdMax = 5 * time.Second

// NewConsumer makes a consumer. Close it at the end, before its client: what the application has in hand comes to
// others then once it is visible again.
func NewConsumer(client *Client, options ConsumerOptions) (*Consumer, error) {
	var topics []string
	var subscriptions []*commonv1.Subscription
	for _, each := range append([]Subscription{{options.Topic, options.Tags, options.SQL}}, options.More...) {
		if each.Tags != "" && each.SQL != "" {
			return nil, errors.New("ariane: a consumer filters by tags or by SQL, not by both")
		}
		if slices.Contains(topics, each.Topic) {
			return nil, fmt.Errorf("ariane: a consumer subscribes twice to topic %q", each.Topic)
		}
		topics, subscriptions = append(topics, each.Topic), append(subscriptions, each.wire())
	}
	if options.MaxMessages < 0 || options.MaxMessages > math.MaxInt32 {
		return nil, fmt.Errorf("ariane: a consumer cannot receive %d messages at once", options.MaxMessages)
	}
	options.MaxMessages = cmp.Or(options.MaxMessages, 32)
	options.InvisibleDuration = cmp.Or(options.InvisibleDuration, time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	return &Consumer{
		client:  client,
		options: options,
		topics:  topics,
		order: &brokerv1.ReceiveOrder{
			ConsumerGroup:     options.Group,
			ClientId:          client.id,
			Subscriptions:     subscriptions,
			MessageCountMax:   int32(options.MaxMessages),
			InvisibleDuration: durationpb.New(options.InvisibleDuration),
			ByPriority:        options.ByPriority,
		},
		ctx:     ctx,
		cancel:  cancel,
		arrived: make(chan received),
		pending: map[string]bool{},
	}, nil
}

func (s Subscription) wire() *commonv1.Subscription {
	wire := &commonv1.Subscription{Topic: s.Topic}
	if s.SQL != "" {
		wire.Filter = &commonv1.FilterExpression{Kind: commonv1.FilterKind_FILTER_KIND_SQL92, Text: s.SQL}
	} else if s.Tags != "" && s.Tags != "*" {
		wire.Filter = &commonv1.FilterExpression{Kind: commonv1.FilterKind_FILTER_KIND_TAG, Text: s.Tags}
	}
	return wire
}

// Close ends what is being asked, and gives back what came and nobody took: others see that at once. It returns
// also when brokers are away.
func (c *Consumer) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.asking.Wait()
}

// Receive waits at most so long for messages, and returns those of the broker that has some first;
// none, and no error, when nothing came. Every broker of the topics is asked. Those that have not
// answered yet go on being asked, and what they find comes with the next Receive: nothing is lost when
// the context ends before, which is an error. One that is Retriable says that a broker is away.
func (c *Consumer) Receive(ctx context.Context, wait time.Duration) ([]Delivery, error) {
	wait = max(wait, 0)
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c.receiving.Add(1)
	defer c.receiving.Add(-1)
	var failure *Error
	for repeats := 0; ; repeats++ {
		hold := min(wait, holdMax)
		if failure != nil {
			hold = 0 // Whether it is still away is known sooner.
		}
		if err := c.askAll(ctx, wait, hold); err != nil {
			return nil, err
		}
		select {
		case answer := <-c.arrived:
			c.mu.Lock()
			delete(c.pending, answer.address)
			c.mu.Unlock()
			if answer.err == nil {
				// Nobody may have called until others see them again.
				if len(answer.deliveries) > 0 && time.Since(answer.at) < c.options.InvisibleDuration {
					if c.receiving.Load() > 1 {
						c.askForOthers(wait, hold)
					}
					return answer.deliveries, nil
				}
				repeats, failure = 0, nil
				continue // Nothing came; there may be time for another hold.
			}
			failure = errorOf(answer.err, answer.address)
			if !failure.passing() {
				return nil, failure
			}
			c.client.forgetRoute(c.topics...)
			if !pause(waiting, repeats, failure) {
				return nil, failure
			}
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if failure != nil {
				return nil, failure
			}
			return nil, nil
		case <-c.ctx.Done():
			return nil, closedError()
		}
	}
}

// askForOthers asks while messages are worked on: who does that asks for nothing. Where it fails, the others will hear.
func (c *Consumer) askForOthers(wait, hold time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() == nil {
		c.asking.Go(func() { _ = c.askAll(c.ctx, wait, hold) })
	}
}

// askAll asks each broker of the topics that is not being asked already.
func (c *Consumer) askAll(ctx context.Context, wait, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(wait, c.client.options.TryTimeout))
	defer cancel()
	places := map[place][]*commonv1.Subscription{}
	for number, topic := range c.topics {
		route, err := c.client.Route(ctx, topic)
		if err != nil {
			return err
		}
		for _, broker := range route.Brokers {
			if address := broker.Addresses[0]; address != "" {
				at := place{address, "broker", broker.BrokerName}
				// Of a topic that it does not have, a broker would refuse all.
				places[at] = append(places[at], c.order.Subscriptions[number])
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return closedError()
	}
	for at, subscriptions := range places {
		if _, has := c.pending[at.address]; has {
			continue
		}
		c.pending[at.address] = true
		c.asking.Go(func() { c.ask(at, subscriptions, hold) })
	}
	return nil
}

// ask asks one broker, and waits until somebody takes what it said. A call that holds is never given
// up early: messages that were on their way would be invisible for nothing.
func (c *Consumer) ask(at place, subscriptions []*commonv1.Subscription, hold time.Duration) {
	answer := received{address: at.address}
	answer.deliveries, answer.err = c.receiveFrom(at, subscriptions, hold)
	answer.at = time.Now()
	c.mu.Lock()
	c.pending[at.address] = false
	c.mu.Unlock()
	select {
	case c.arrived <- answer:
	case <-c.ctx.Done():
		c.giveBack(answer.deliveries)
	}
}

// giveBack shows messages to others. What a broker does not hear of comes again by itself.
func (c *Consumer) giveBack(deliveries []Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), c.client.options.TryTimeout)
	defer cancel()
	_ = c.settle(ctx, deliveries, hidden(0))
}

func (c *Consumer) receiveFrom(at place, subscriptions []*commonv1.Subscription, hold time.Duration) ([]Delivery, error) {
	connection, err := c.client.connect(at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, hold+c.client.options.TryTimeout)
	defer cancel()
	order := proto.CloneOf(c.order)
	order.HoldDuration, order.Subscriptions = durationpb.New(hold), subscriptions
	answer, err := brokerv1.NewReceiveServiceClient(connection).ReceiveRecords(ctx, &brokerv1.ReceiveRecordsRequest{Order: order})
	if err != nil {
		return nil, errorOf(err, at.address)
	}
	var deliveries []Delivery
	var failures []error
	room := answerBytesMax
	for _, queue := range answer.Queues {
		c.hear(at.name, queue)
		theirs, err := deliveriesOf(at.name, queue, &room)
		if err != nil {
			c.client.options.Logger.Error("a queue of a broker's answer cannot be read to its end: the rest of its messages come again",
				"group", c.options.Group, "broker", at.name, "error", err)
			failures = append(failures, err)
		}
		deliveries = append(deliveries, theirs...)
	}
	if len(deliveries) > 0 { // Others do not see them now.
		return deliveries, nil
	}
	return nil, errors.Join(failures...)
}

// LostMessageCount says how many messages were passed over because their records are damaged in a broker, as
// far as this consumer was told: a broker tells one consumer of the group. Each is logged as an error, too.
func (c *Consumer) LostMessageCount() int64 { return c.lost.Load() }

func (c *Consumer) hear(broker string, queue *brokerv1.ReceivedRecords) {
	for _, run := range queue.Lost {
		c.lost.Add(run.MessageCount)
		c.client.options.Logger.Error("messages from first_offset on are lost, damaged in the broker, and passed over",
			"group", c.options.Group, "topic", queue.Topic, "broker", broker,
			"queue_id", queue.QueueId, "first_offset", run.FirstQueueOffset, "count", run.MessageCount)
	}
}
