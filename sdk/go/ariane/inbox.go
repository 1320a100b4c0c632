package ariane

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
	namesrvv1 "ariane.mq/go/arianepb/namesrv/v1"
)

const (
	// replyGroup is as whom requesters read replies: it has no members and no offsets.
	replyGroup  = "ARIANE_REPLIES"
	replySuffix = "_REPLY_TOPIC"
	// lookTimeout ends the first look for the topic of replies: else one would wait long for brokers that are away, and
	// to create a topic that is there is harmless.
	lookTimeout = 500 * time.Millisecond
)

// inbox gives each reply to the request of this client that waits for it. Replies bear the id of the client as their tag,
// so that brokers hand out no others. It begins at the ends of the queues, before the first request is sent.
type inbox struct {
	client *Client
	ctx    context.Context // Ends with the client.
	cancel context.CancelFunc

	opening singleflight.Group
	running sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]chan *commonv1.Message // By correlation id.
	opened  map[string]bool                   // Topics.
	read    map[brokerTopic]bool
}

type brokerTopic struct{ broker, topic string }

// place of one queue from which on it is read.
type queuePlace struct {
	offset int64
	epoch  uint64
}

func newInbox(client *Client) *inbox {
	ctx, cancel := context.WithCancel(context.Background())
	return &inbox{
		client: client, ctx: ctx, cancel: cancel,
		waiting: map[string]chan *commonv1.Message{}, opened: map[string]bool{}, read: map[brokerTopic]bool{},
	}
}

// end ends the reading, and with it every wait.
func (i *inbox) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cancel()
}

func (i *inbox) expect(correlation string) <-chan *commonv1.Message {
	reply := make(chan *commonv1.Message, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting[correlation] = reply
	return reply
}

func (i *inbox) forget(correlation string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.waiting, correlation)
}

func (i *inbox) handOut(message *commonv1.Message) {
	i.mu.Lock()
	reply := i.waiting[message.GetReplyAddress().GetCorrelationId()]
	i.mu.Unlock()
	select {
	case reply <- message:
	default: // Nobody waits any more, or it has its reply.
	}
}

// open reads the replies of a cluster from now on. It is done once for all that wait for it, and ends with none of them.
func (i *inbox) open(ctx context.Context, cluster string) error {
	topic := cluster + replySuffix
	i.mu.Lock()
	opened := i.opened[topic]
	i.mu.Unlock()
	if opened {
		return nil
	}
	opening := i.opening.DoChan(topic, func() (any, error) {
		ctx, cancel := context.WithTimeout(i.ctx, i.client.options.CallTimeout)
		defer cancel()
		return nil, i.begin(ctx, cluster, topic)
	})
	select {
	case done := <-opening:
		if i.ctx.Err() != nil {
			return closedError()
		}
		var failure *Error
		if !errors.As(done.Err, &failure) {
			return done.Err
		}
		own := *failure // Whoever gets an error may add to it.
		own.OutcomeUnknown = false
		return &own
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *inbox) begin(ctx context.Context, cluster, topic string) error {
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	route, err := i.client.Route(look, topic)
	cancel()
	if ReasonOf(err) == ReasonRouteNotFound {
		if err = i.makeTopic(ctx, cluster, topic); err == nil {
			route, err = i.newRoute(ctx, topic)
		}
	} else if err != nil {
		route, err = i.client.Route(ctx, topic)
	}
	if err != nil {
		return err
	}
	var ends errgroup.Group
	for _, broker := range route.Brokers {
		ends.Go(func() error {
			places, err := i.endsOf(ctx, topic, broker.BrokerName)
			if err == nil {
				i.start(topic, broker.BrokerName, places)
			}
			return err
		})
	}
	if err := ends.Wait(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.opened[topic] = true
	return nil
}

// newRoute waits for the route of a topic that was made: some name server may hear of it later.
func (i *inbox) newRoute(ctx context.Context, topic string) (*namesrvv1.Route, error) {
	for repeats := 0; ; repeats++ {
		route, err := i.client.Route(ctx, topic)
		if err == nil {
			return route, nil
		}
		failure := errorOf(err, "")
		if failure.Reason != ReasonRouteNotFound || !pause(ctx, repeats, failure) {
			return nil, failure
		}
	}
}

// makeTopic makes the topic on every primary of a cluster.
func (i *inbox) makeTopic(ctx context.Context, cluster, topic string) error {
	brokers, err := i.client.brokers(ctx)
	if err != nil {
		return err
	}
	request := &brokerv1.CreateTopicRequest{Topic: &brokerv1.Topic{Topic: topic, ReadQueueCount: 1, WriteQueueCount: 1}}
	for _, each := range brokers {
		broker := each.GetIdentity()
		if broker.GetClusterName() != cluster || broker.GetBrokerId() != 0 {
			continue
		}
		connection, err := i.client.broker(broker.Address, broker.BrokerName)
		if err != nil {
			return err
		}
		_, err = within(ctx, i.client.options.TryTimeout, func(ctx context.Context) (*brokerv1.CreateTopicResponse, error) {
			return brokerv1.NewTopicServiceClient(connection).CreateTopic(ctx, request)
		})
		if failure := errorOf(err, broker.Address); err != nil && failure.Reason != "TOPIC_EXISTS" {
			return failure
		}
	}
	return nil
}

// endsOf are the ends of the queues of one broker. One that is away is read from its beginning when it is back: it may
// hold replies.
func (i *inbox) endsOf(ctx context.Context, topic, broker string) (map[int32]queuePlace, error) {
	ctx, cancel := context.WithTimeout(ctx, i.client.options.TryTimeout)
	defer cancel()
	ends := map[int32]queuePlace{}
	err := i.client.onPrimary(ctx, broker, []string{topic}, func(ctx context.Context, connection *grpc.ClientConn) error {
		said, err := brokerv1.NewPullServiceClient(connection).ListQueueBounds(ctx, &brokerv1.ListQueueBoundsRequest{Topic: topic})
		for _, each := range said.GetQueues() {
			ends[each.QueueId] = queuePlace{each.MaxQueueOffset, each.LogEpoch}
		}
		return err
	})
	if err != nil && !errorOf(err, "").passing() {
		return nil, err
	}
	return ends, nil
}

// start has the queues of a broker read, unless they are.
func (i *inbox) start(topic, broker string, places map[int32]queuePlace) {
	i.mu.Lock()
	defer i.mu.Unlock()
	own := brokerTopic{broker, topic}
	if i.read[own] || i.ctx.Err() != nil {
		return
	}
	i.read[own] = true
	i.running.Go(func() {
		for repeats := 0; i.ctx.Err() == nil; {
			err := i.pull(own, places, repeats == 0)
			if err == nil {
				repeats = 0
				continue
			}
			if repeats == 0 && i.ctx.Err() == nil {
				i.client.options.Logger.Warn("replies are not read, and will be", "broker", broker, "topic", topic, "error", err)
			}
			pause(i.ctx, repeats, errorOf(err, ""))
			repeats++
			i.client.forgetRoute(topic)
		}
	})
}

// follow reads a broker that took up the topic later, from its beginning: all that it has is new.
func (i *inbox) follow(topic, broker string) {
	i.mu.Lock()
	opened := i.opened[topic]
	i.mu.Unlock()
	if opened {
		i.start(topic, broker, map[int32]queuePlace{})
	}
}

// pull holds one pull for all queues of the topic on a broker; after a failure it is answered at once: whether the
// broker is still away is known sooner.
func (i *inbox) pull(at brokerTopic, places map[int32]queuePlace, holds bool) error {
	route, err := i.client.Route(i.ctx, at.topic)
	if err != nil {
		return err
	}
	request := &brokerv1.PullMessagesRequest{ConsumerGroup: replyGroup, ClientId: i.client.id}
	request.Subscriptions = []*commonv1.Subscription{Subscription{Topic: at.topic, Tags: i.client.id}.wire()}
	for _, each := range route.Brokers {
		if each.BrokerName != at.broker {
			i.follow(at.topic, each.BrokerName)
			continue
		}
		for id := range each.ReadQueueCount {
			request.Positions = append(request.Positions, &brokerv1.PullPosition{
				Topic: at.topic, QueueId: id, QueueOffset: places[id].offset, LogEpoch: places[id].epoch,
			})
		}
	}
	address, err := i.client.brokerAddress(i.ctx, at.broker, at.topic)
	if err != nil {
		return err
	}
	connection, err := i.client.broker(address, at.broker)
	if err != nil {
		return err
	}
	hold := time.Duration(0)
	if holds {
		hold = holdMax
	}
	request.HoldDuration = durationpb.New(hold)
	answer, err := within(i.ctx, hold+i.client.options.TryTimeout, func(ctx context.Context) (*brokerv1.PullMessagesResponse, error) {
		return brokerv1.NewPullServiceClient(connection).PullMessages(ctx, request)
	})
	if err != nil {
		return errorOf(err, address)
	}
	for _, queue := range answer.Queues {
		if err := i.takeIn(queue, places); err != nil {
			return err
		}
	}
	return nil
}

func (i *inbox) takeIn(queue *brokerv1.QueueMessages, places map[int32]queuePlace) error {
	next := queue.NextQueueOffset
	if queue.Error != nil {
		failure := errorOfStatus(queue.Error, "")
		switch failure.Reason {
		case "QUEUE_CUT":
			next, _ = strconv.ParseInt(failure.Metadata["end"], 10, 64)
		case "QUEUE_OFFSET_OUT_OF_RANGE":
			next = queue.MaxQueueOffset
			if places[queue.QueueId].offset < queue.MinQueueOffset {
				next = queue.MinQueueOffset
			}
		default:
			return failure
		}
	}
	places[queue.QueueId] = queuePlace{next, queue.LogEpoch}
	for _, message := range queue.Messages {
		i.handOut(message)
	}
	return nil
}
