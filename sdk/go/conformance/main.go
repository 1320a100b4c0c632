// Conformance lets a test play scenarios with this client: commands come as lines of JSON, and each is
// answered by a line. integration/clients/README.md of ArianeMQ has the commands.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"ariane.mq/go/ariane"
)

// No play fails because a machine is slow; whoever freezes brokers wants shorter times.
var (
	tryTimeout  = timeoutOf("TRY_MS", 30*time.Second)
	callTimeout = timeoutOf("CALL_MS", 90*time.Second)
)

func timeoutOf(variable string, usual time.Duration) time.Duration {
	if timeout, err := time.ParseDuration(os.Getenv(variable) + "ms"); err == nil {
		return timeout
	}
	return usual
}

type message struct {
	Topic       string            `json:"topic"`
	Body        []byte            `json:"body"`
	Tag         string            `json:"tag"`
	Keys        []string          `json:"keys"`
	Group       string            `json:"group"`
	Properties  map[string]string `json:"properties"`
	DeliverInMs int64             `json:"deliver_in_ms,omitempty"`
	Priority    int32             `json:"priority"`
	ID          string            `json:"id"`
	Attempt     int               `json:"attempt"`
	Number      int               `json:"number"`
}

type command struct {
	Call        int               `json:"call"`
	Do          string            `json:"do"`
	NameServers []string          `json:"name_servers"`
	Token       string            `json:"token"`
	Messages    []message         `json:"messages"`
	Topic       string            `json:"topic"`
	Group       string            `json:"group"`
	More        map[string]string `json:"more"`
	Tags        string            `json:"tags"`
	SQL         string            `json:"sql"`
	ByPriority  bool              `json:"by_priority"`
	Compression string            `json:"compression"`
	Max         int               `json:"max"`
	WaitMs      int64             `json:"wait_ms"`
	InvisibleMs int64             `json:"invisible_ms"`
	DelayMs     int64             `json:"delay_ms"`
	DeadLetter  bool              `json:"dead_letter"`
	Numbers     []int             `json:"numbers"`
	Answer      string            `json:"answer"`
	Count       int64             `json:"count"`
	Batch       int64             `json:"batch"`
	InFlight    int               `json:"in_flight"`
	TimeoutMs   int64             `json:"timeout_ms"`
	Address     string            `json:"address"`
	Act         string            `json:"act"`
	Queues      int32             `json:"queues"`
	ToMs        int64             `json:"to_ms"`
}

type worker struct {
	mu           sync.Mutex // Commands are carried out side by side.
	nameServers  []string
	token        string
	clients      map[string]*ariane.Client // By how they compress.
	senders      map[string]*ariane.Producer
	receipts     []ariane.Receipt
	consumers    map[string]*ariane.Consumer
	deliveries   []ariane.Delivery
	owners       []*ariane.Consumer
	producers    map[string]*ariane.TransactionProducer
	transactions []*ariane.Transaction
	answers      map[string]string
	checked      []check
	heard        []heard
	busy, most   int
	stop         func() error // Ends the listening.
	recorded     *tracetest.InMemoryExporter
	tracer       ariane.Tracer
}

type heard struct {
	Body    []byte `json:"body"`
	Attempt int    `json:"attempt"`
}

type check struct {
	ID   string `json:"id"`
	Body []byte `json:"body"`
}

func main() {
	w := &worker{
		consumers: map[string]*ariane.Consumer{},
		producers: map[string]*ariane.TransactionProducer{},
		answers:   map[string]string{},
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	var writing sync.Mutex
	var calls sync.WaitGroup
	for lines.Scan() {
		line := slices.Clone(lines.Bytes())
		calls.Go(func() {
			answer := w.answer(line)
			writing.Lock()
			defer writing.Unlock()
			if err := out.Encode(answer); err != nil {
				panic(err)
			}
		})
	}
}

func (w *worker) answer(line []byte) map[string]any {
	var asked command
	err := json.Unmarshal(line, &asked)
	var said any
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		said, err = w.do(ctx, asked)
	}
	if err != nil {
		return map[string]any{"call": asked.Call, "error": told(err)}
	}
	return map[string]any{"call": asked.Call, "ok": said}
}

func told(err error) map[string]any {
	var known *ariane.Error
	if !errors.As(err, &known) {
		return map[string]any{"reason": "", "text": err.Error(), "outcome_unknown": false}
	}
	return map[string]any{
		"reason": known.Reason, "text": err.Error(), "outcome_unknown": known.OutcomeUnknown,
	}
}

func (w *worker) do(ctx context.Context, asked command) (any, error) {
	switch asked.Do {
	case "connect":
		w.nameServers, w.token = asked.NameServers, asked.Token
		w.clients, w.senders = map[string]*ariane.Client{}, map[string]*ariane.Producer{}
		_, err := w.connect("")
		return map[string]any{"language": "go"}, err
	case "send":
		return w.send(ctx, asked)
	case "pump":
		return w.pump(ctx, asked)
	case "drain":
		return w.drain(ctx, asked)
	case "recall":
		producer, err := w.connect("")
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		receipt := w.receipts[asked.Numbers[0]]
		w.mu.Unlock()
		return producer.Recall(ctx, asked.Topic, receipt)
	case "receive":
		return w.receive(ctx, asked)
	case "listen":
		return nil, w.listen(asked)
	case "heard":
		w.mu.Lock()
		defer w.mu.Unlock()
		return map[string]any{"messages": append([]heard{}, w.heard...), "most": w.most}, nil
	case "stop":
		return nil, w.stop()
	case "lost":
		consumer, err := w.consumer(asked)
		if err != nil {
			return nil, err
		}
		return consumer.LostMessageCount(), nil
	case "ack", "nack", "extend":
		return nil, w.settle(ctx, asked)
	case "transactions":
		return nil, w.openTransactions(ctx, asked)
	case "begin":
		return w.begin(ctx, asked)
	case "commit":
		return nil, w.transaction(asked).Commit(ctx)
	case "rollback":
		return nil, w.transaction(asked).Rollback(ctx)
	case "request":
		return w.request(ctx, asked)
	case "answer":
		return nil, w.respond(asked)
	case "administer":
		return w.administer(ctx, asked)
	case "spans":
		return w.spans(), nil
	case "checked":
		w.mu.Lock()
		defer w.mu.Unlock()
		return append([]check{}, w.checked...), nil
	}
	return nil, fmt.Errorf("no such command: %q", asked.Do)
}

var compressions = map[string]ariane.Compression{
	"lz4": ariane.LZ4, "zstd": ariane.Zstandard, "zlib": ariane.Zlib,
}

// connect is the sender that compresses so.
func (w *worker) connect(compression string) (*ariane.Producer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sender := w.senders[compression]; sender != nil {
		return sender, nil
	}
	options := ariane.Options{
		Compression: compressions[compression], TryTimeout: tryTimeout, CallTimeout: callTimeout,
		ProducerGroup: "conformance", Tracer: w.tracer,
	}
	if token := w.token; token != "" {
		options.Token = func(context.Context) (string, error) { return token, nil }
	}
	client, err := ariane.NewClient(w.nameServers, options)
	if err != nil {
		return nil, err
	}
	w.clients[compression], w.senders[compression] = client, ariane.NewProducer(client)
	return w.senders[compression], nil
}

func sent(m message) ariane.Message {
	known := ariane.Message{
		Topic: m.Topic, Body: m.Body, Tag: m.Tag, Keys: m.Keys, Group: m.Group,
		Properties: m.Properties, ID: m.ID, Priority: m.Priority,
	}
	if m.DeliverInMs != 0 {
		known.DeliverAt = time.Now().Add(time.Duration(m.DeliverInMs) * time.Millisecond)
	}
	return known
}

func (w *worker) send(ctx context.Context, asked command) (any, error) {
	messages := make([]ariane.Message, len(asked.Messages))
	for position, each := range asked.Messages {
		messages[position] = sent(each)
	}
	sender, err := w.connect(asked.Compression)
	if err != nil {
		return nil, err
	}
	receipts, err := sender.SendBatch(ctx, messages)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	told := make([]map[string]any, len(receipts))
	for position, receipt := range receipts {
		told[position] = map[string]any{
			"number": len(w.receipts), "id": receipt.ID, "broker": receipt.BrokerName,
			"queue_id": receipt.QueueID, "offset": receipt.Offset,
		}
		w.receipts = append(w.receipts, receipt)
	}
	return told, nil
}

// pump sends one message again and again, some calls at a time, and tells the seconds.
func (w *worker) pump(ctx context.Context, asked command) (any, error) {
	sender, err := w.connect(asked.Compression)
	if err != nil {
		return nil, err
	}
	each := sent(asked.Messages[0])
	batch := slices.Repeat([]ariane.Message{each}, int(asked.Batch))
	var begun atomic.Int64
	failures := make(chan error, asked.InFlight)
	began := time.Now()
	for range asked.InFlight {
		go func() {
			var err error
			for err == nil && begun.Add(asked.Batch) <= asked.Count {
				if asked.Batch > 1 {
					_, err = sender.SendBatch(ctx, batch)
				} else {
					_, err = sender.Send(ctx, each)
				}
			}
			failures <- err
		}()
	}
	for range asked.InFlight {
		err = errors.Join(err, <-failures)
	}
	return time.Since(began).Seconds(), err
}

// emptyMax is how many empty answers in a row say that no more messages come.
const emptyMax = 2

// drain receives and acknowledges until it has had so many messages, and tells the seconds.
func (w *worker) drain(ctx context.Context, asked command) (any, error) {
	consumer, err := w.consumer(asked)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	empty := 0
	for left := asked.Count; left > 0; {
		deliveries, err := consumer.Receive(ctx, callTimeout)
		if err != nil {
			return nil, err
		}
		if err := consumer.Ack(ctx, deliveries...); err != nil {
			return nil, err
		}
		left -= int64(len(deliveries))
		if len(deliveries) > 0 {
			empty = 0
		} else if empty++; empty == emptyMax {
			return nil, fmt.Errorf("%d of %d messages are missing", left, asked.Count)
		}
	}
	return time.Since(began).Seconds(), nil
}

func (w *worker) consumer(asked command) (*ariane.Consumer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.consumers[asked.Group]; known != nil {
		return known, nil
	}
	var more []ariane.Subscription
	for topic, tags := range asked.More {
		more = append(more, ariane.Subscription{Topic: topic, Tags: tags})
	}
	consumer, err := ariane.NewConsumer(w.clients[""], ariane.ConsumerOptions{
		Group: asked.Group, Topic: asked.Topic, Tags: asked.Tags, SQL: asked.SQL, More: more,
		ByPriority:        asked.ByPriority,
		MaxMessages:       asked.Max,
		InvisibleDuration: time.Duration(asked.InvisibleMs) * time.Millisecond,
	})
	w.consumers[asked.Group] = consumer
	return consumer, err
}

func (w *worker) receive(ctx context.Context, asked command) (any, error) {
	consumer, err := w.consumer(asked)
	if err != nil {
		return nil, err
	}
	deliveries, err := consumer.Receive(ctx, time.Duration(asked.WaitMs)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	told := make([]message, len(deliveries))
	for position, each := range deliveries {
		told[position] = message{
			// Nothing is said as an empty list, and not as null.
			Topic: each.Topic, Body: append([]byte{}, each.Body...), Tag: each.Tag,
			Keys: append([]string{}, each.Keys...), Group: each.Group,
			Properties: maps.Collect(maps.All(each.Properties)), ID: each.ID, Attempt: each.Attempt, Number: len(w.deliveries),
			Priority: each.Priority,
		}
		w.deliveries = append(w.deliveries, each)
		w.owners = append(w.owners, consumer)
	}
	return told, nil
}

// listen works on messages for a while each; one that is to fail does so at its first attempt.
func (w *worker) listen(asked command) error {
	consumer, err := w.consumer(asked)
	if err != nil {
		return err
	}
	w.listenUntilStop(consumer, asked.InFlight, func(_ context.Context, delivery ariane.Delivery) error {
		w.mu.Lock()
		w.busy++
		w.most = max(w.most, w.busy)
		w.heard = append(w.heard, heard{delivery.Body, delivery.Attempt})
		w.mu.Unlock()
		time.Sleep(time.Duration(asked.WaitMs) * time.Millisecond)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy--
		if string(delivery.Body) == "fail" && delivery.Attempt == 1 {
			return errors.New("as told")
		}
		return nil
	})
	return nil
}

func (w *worker) settle(ctx context.Context, asked command) error {
	w.mu.Lock()
	consumer := w.owners[asked.Numbers[0]]
	deliveries := make([]ariane.Delivery, len(asked.Numbers))
	for position, number := range asked.Numbers {
		deliveries[position] = w.deliveries[number]
	}
	w.mu.Unlock()
	switch asked.Do {
	case "ack":
		return consumer.Ack(ctx, deliveries...)
	case "nack":
		delay := time.Duration(asked.DelayMs) * time.Millisecond
		return consumer.Nack(ctx, ariane.Nack{Delay: &delay, DeadLetter: asked.DeadLetter}, deliveries...)
	}
	duration := time.Duration(asked.InvisibleMs) * time.Millisecond
	err := consumer.ChangeInvisibleDuration(ctx, &deliveries[0], duration)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deliveries[asked.Numbers[0]] = deliveries[0]
	return err
}

func (w *worker) openTransactions(ctx context.Context, asked command) error {
	w.mu.Lock()
	w.answers[asked.Group] = asked.Answer
	known := w.producers[asked.Group]
	w.mu.Unlock()
	if known != nil {
		return nil
	}
	if _, err := w.connect(asked.Compression); err != nil {
		return err
	}
	checker := func(_ context.Context, message ariane.Message) (ariane.Outcome, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.checked = append(w.checked, check{message.ID, message.Body})
		switch w.answers[asked.Group] {
		case "commit":
			return ariane.Commit, nil
		case "rollback":
			return ariane.Rollback, nil
		}
		return ariane.Unknown, nil
	}
	w.mu.Lock()
	client := w.clients[asked.Compression]
	w.mu.Unlock()
	producer, err := ariane.NewTransactionProducer(ctx, client, asked.Group, []string{asked.Topic}, checker)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.producers[asked.Group] = producer
	return err
}

func (w *worker) begin(ctx context.Context, asked command) (any, error) {
	w.mu.Lock()
	producer := w.producers[asked.Group]
	w.mu.Unlock()
	transaction, err := producer.Begin(ctx, sent(asked.Messages[0]))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.transactions = append(w.transactions, transaction)
	return map[string]any{"number": len(w.transactions) - 1, "id": transaction.ID()}, nil
}

func (w *worker) transaction(asked command) *ariane.Transaction {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.transactions[asked.Numbers[0]]
}
