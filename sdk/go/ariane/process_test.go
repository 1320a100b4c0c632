package ariane

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
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
	bounds      func(context.Context) error            // What the bounds of queues wait for.
	route       func() error                           // What routes are refused with.
	refuse      error                                  // What sends are refused with.
	spoil       func(*brokerv1.ReceiveRecordsResponse) // What becomes of an answer with messages.
	results     func([]*brokerv1.SettledRecords) []*brokerv1.SettledRecords
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
		spoil:       func(*brokerv1.ReceiveRecordsResponse) {},
		results:     func(all []*brokerv1.SettledRecords) []*brokerv1.SettledRecords { return all },
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
	answer := &brokerv1.ReceiveRecordsResponse{Queues: []*brokerv1.ReceivedRecords{queue}}
	p.spoil(answer)
	return answer, nil
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
	answer.Results = p.results(answer.Results)
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
