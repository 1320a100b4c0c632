package ariane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	namesrvv1 "ariane.mq/go/arianepb/namesrv/v1"
)

// question is one to a name server: where a topic is, or a message group of it.
type question struct{ topic, group string }

type answer struct {
	said  any
	until time.Time
}

// topicRoute is a route, and the queues by which it takes messages.
type topicRoute struct {
	route    *namesrvv1.Route
	writable []writable
	// denial is what name servers said since: that there is no such topic, and no broker takes messages that could say more.
	denial *Error
}

type writable struct {
	queue   queue
	address string // Of its broker.
}

func topicRouteOf(route *namesrvv1.Route) *topicRoute {
	made := &topicRoute{route: route}
	for _, broker := range route.GetBrokers() {
		may := broker.Permission == namesrvv1.TopicPermission_TOPIC_PERMISSION_WRITE ||
			broker.Permission == namesrvv1.TopicPermission_TOPIC_PERMISSION_READ_WRITE
		if address := broker.Addresses[0]; may && address != "" {
			for id := range broker.WriteQueueCount {
				made.writable = append(made.writable, writable{queue{route.Topic, broker.BrokerName, id}, address})
			}
		}
	}
	return made
}

const (
	answerLife = 30 * time.Second
	// answerRest is how long name servers that did not answer are left alone.
	answerRest = 5 * time.Second
	answersMax = 4096
	// brokersPage is how many brokers a name server lists at a time.
	brokersPage = 1000
)

// Route tells where a topic's queues are: at most 30 s old, and asked for anew on routing errors.
func (c *Client) Route(ctx context.Context, topic string) (*namesrvv1.Route, error) {
	known, err := c.route(ctx, topic)
	if err != nil {
		return nil, err
	}
	return known.route, nil
}

func (c *Client) route(ctx context.Context, topic string) (*topicRoute, error) {
	return askNameServer(ctx, c, question{topic: topic}, func(ctx context.Context, stub namesrvv1.RouteServiceClient) (*topicRoute, error) {
		said, err := stub.GetRoute(ctx, &namesrvv1.GetRouteRequest{Topic: topic})
		if denial := errorOf(err, ""); denial.Reason == ReasonRouteNotFound && !denial.exists() {
			c.followBrokers(ctx, stub, question{topic: topic}, denial)
		}
		c.noteClusters(said.GetRoute())
		return topicRouteOf(said.GetRoute()), err
	})
}

// brokers are those that name servers know.
func (c *Client) brokers(ctx context.Context) ([]*namesrvv1.BrokerLiveness, error) {
	// No topic and no group has such a name.
	return askNameServer(ctx, c, question{group: "all brokers"}, listBrokers)
}

func listBrokers(ctx context.Context, stub namesrvv1.RouteServiceClient) ([]*namesrvv1.BrokerLiveness, error) {
	var all []*namesrvv1.BrokerLiveness
	for request := (&namesrvv1.ListBrokersRequest{PageSize: brokersPage}); ; {
		said, err := stub.ListBrokers(ctx, request)
		all = append(all, said.GetBrokers()...)
		if request.PageToken = said.GetNextPageToken(); err != nil || request.PageToken == "" {
			return all, err
		}
	}
}

// followBrokers has the known route of a topic lead to the present primaries, which say what became of it: name
// servers have no route of a topic that was deleted, and a primary that has stopped or stands still names no successor.
func (c *Client) followBrokers(ctx context.Context, stub namesrvv1.RouteServiceClient, asked question, denial *Error) {
	if c.knownRoute(asked) == nil {
		return
	}
	present, err := listBrokers(ctx, stub)
	if err != nil {
		c.options.Logger.Debug("where the brokers of a topic are now is not known", "topic", asked.topic, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, found := c.known[asked]
	if !found {
		return
	}
	route := proto.CloneOf(before.said.(*topicRoute).route) // Others read the known one.
	for _, broker := range route.Brokers {
		for _, each := range present {
			now := each.GetIdentity()
			same := now.GetClusterName() == broker.ClusterName && now.GetBrokerName() == broker.BrokerName && now.GetBrokerId() == 0
			if same && broker.Addresses[0] != "" { // Without a primary nobody is asked for the topic.
				broker.Addresses[0] = now.GetAddress()
			}
		}
	}
	made := topicRouteOf(route)
	if len(made.writable) == 0 && !denial.mayComeBack() {
		made.denial = denial
	}
	c.known[asked] = answer{made, before.until}
}

// knownRoute is what is known of a topic, old or not; nil if nothing is.
func (c *Client) knownRoute(asked question) *namesrvv1.Route {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, found := c.known[asked].said.(*topicRoute); found {
		return known.route
	}
	return nil
}

// groupQueue tells which queue the messages of a group go to, by the same terms.
func (c *Client) groupQueue(ctx context.Context, topic, group string) (queue, error) {
	return askNameServer(ctx, c, question{topic, group}, func(ctx context.Context, stub namesrvv1.RouteServiceClient) (queue, error) {
		said, err := stub.GetMessageGroupQueue(ctx, &namesrvv1.GetMessageGroupQueueRequest{Topic: topic, MessageGroup: group})
		return queue{topic, said.GetQueue().GetBrokerName(), said.GetQueue().GetQueueId()}, err
	})
}

// forgetRoute has what is known of topics asked anew.
func (c *Client) forgetRoute(topics ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for asked, known := range c.known {
		if slices.Contains(topics, asked.topic) {
			c.known[asked] = answer{known.said, time.Time{}}
		}
	}
}

// askNameServer asks one name server after the other until one answers or the time is over: asking is always
// safe to repeat. What was known before holds where the next one that is asked does not answer.
func askNameServer[A any](
	ctx context.Context, c *Client, asked question, ask func(context.Context, namesrvv1.RouteServiceClient) (A, error),
) (A, error) {
	if said, fresh := c.fresh(asked); fresh { // As for each message, which has a deadline by now or needs none.
		return said.(A), nil
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var none A
	for try := 0; ; try++ {
		if said, fresh := c.fresh(asked); fresh {
			return said.(A), nil
		}
		c.mu.Lock()
		known, found := c.known[asked]
		number := c.nameServer
		c.mu.Unlock()
		servers, err := c.sources.addresses(ctx)
		if err != nil {
			if found {
				return c.kept(asked, known).(A), nil
			}
			if failure := errorOf(err, ""); !pause(ctx, try, failure) {
				return none, failure
			}
			continue
		}
		address := servers[number%len(servers)]
		connection, err := c.connect(place{address: address, kind: "namesrv"})
		if err != nil {
			return none, err
		}
		// Once for all that want to know the same at a time: it ends with none of them.
		asking := c.asking.DoChan(asked.topic+"/"+asked.group, func() (any, error) {
			if said, fresh := c.fresh(asked); fresh {
				return said, nil // The one before has answered since this was looked up.
			}
			said, err := within(context.WithoutCancel(ctx), c.options.TryTimeout, func(ctx context.Context) (A, error) {
				return ask(ctx, namesrvv1.NewRouteServiceClient(connection))
			})
			if err == nil {
				c.remember(asked, said)
			}
			return said, err
		})
		select {
		case got := <-asking:
			if got.Err == nil {
				return got.Val.(A), nil
			}
			err = got.Err
		case <-ctx.Done():
			err = ctx.Err()
		}
		failure := errorOf(err, address)
		failure.OutcomeUnknown = false // To ask changes nothing.
		// A broker that changes its primary may be in no route for a moment: brokers say what is gone.
		gone := failure.Reason == ReasonRouteNotFound && found
		if !failure.Retriable && !gone {
			return none, failure.ofNameServer()
		}
		c.mu.Lock()
		if c.nameServer == number {
			c.nameServer = number + 1
		}
		c.mu.Unlock()
		c.sources.doubt()
		if found {
			return c.kept(asked, known).(A), nil
		}
		if (try+1)%len(servers) == 0 && !pause(ctx, try/len(servers), failure) {
			return none, failure.ofNameServer()
		}
	}
}

// fresh is what is known and still believed.
func (c *Client) fresh(asked question) (said any, is bool) {
	c.mu.Lock()
	known, found := c.known[asked]
	c.mu.Unlock()
	return known.said, found && time.Now().Before(known.until)
}

func (c *Client) remember(asked question, said any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= answersMax {
		clear(c.known)
	}
	c.known[asked] = answer{said, time.Now().Add(answerLife)}
}

// kept is what was known before, which holds for a while where name servers do not know better.
func (c *Client) kept(asked question, before answer) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, found := c.known[asked]; found {
		before = now // It may lead elsewhere by now.
	}
	c.known[asked] = answer{before.said, time.Now().Add(answerRest)}
	return before.said
}

// onPrimary makes a call that is safe to repeat at the primary of a broker, whoever that is by then,
// until it answers or the time is over.
func (c *Client) onPrimary(
	ctx context.Context, broker string, topics []string, call func(context.Context, *grpc.ClientConn) error,
) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	for repeats := 0; ; repeats++ {
		address, err := c.brokerAddress(ctx, broker, topics...)
		if err == nil {
			var connection *grpc.ClientConn
			if connection, err = c.broker(address, broker); err == nil {
				_, err = within(ctx, c.options.TryTimeout, func(ctx context.Context) (struct{}, error) {
					return struct{}{}, call(ctx, connection)
				})
			}
		}
		if err == nil {
			return nil
		}
		failure := errorOf(err, address)
		may := failure.Retriable || failure.unconfirmed()
		if !may || !pause(ctx, repeats, failure) {
			return failure
		}
		c.forgetRoute(topics...)
	}
}

// brokerAddress is where a broker is that has one of the topics.
func (c *Client) brokerAddress(ctx context.Context, broker string, topics ...string) (string, error) {
	var failure error
	for _, topic := range topics {
		route, err := c.Route(ctx, topic)
		for _, each := range route.GetBrokers() {
			if address := each.Addresses[0]; each.BrokerName == broker && address != "" {
				return address, nil
			}
		}
		failure = cmp.Or(failure, err)
	}
	if failure != nil {
		return "", failure
	}
	return "", &Error{
		Code: codes.Unavailable, Reason: ReasonRouteNotFound, Retriable: true,
		Message: fmt.Sprintf("no primary of broker %s is known for topic %s", broker, strings.Join(topics, ", ")),
	}
}

// knownAddress is where a broker of a topic is, as far as that is known; empty otherwise.
func (c *Client) knownAddress(topic, broker string) string {
	for _, each := range c.knownRoute(question{topic: topic}).GetBrokers() {
		if each.BrokerName == broker {
			return each.Addresses[0]
		}
	}
	return ""
}
