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
	"sync"
	"time"

	"ariane.mq/go/ariane"
)

type message struct {
	Topic       string            `json:"topic"`
	Body        []byte            `json:"body"`
	Tag         string            `json:"tag"`
	Keys        []string          `json:"keys"`
	Group       string            `json:"group"`
	Properties  map[string]string `json:"properties"`
	DeliverInMs int64             `json:"deliver_in_ms,omitempty"`
	ID          string            `json:"id"`
	Attempt     int               `json:"attempt"`
	Number      int               `json:"number"`
}

type command struct {
	Do          string    `json:"do"`
	NameServers []string  `json:"name_servers"`
	Messages    []message `json:"messages"`
	Topic       string    `json:"topic"`
	Group       string    `json:"group"`
	Tags        string    `json:"tags"`
	SQL         string    `json:"sql"`
	Max         int       `json:"max"`
	WaitMs      int64     `json:"wait_ms"`
	InvisibleMs int64     `json:"invisible_ms"`
	DelayMs     int64     `json:"delay_ms"`
	DeadLetter  bool      `json:"dead_letter"`
	Numbers     []int     `json:"numbers"`
	Answer      string    `json:"answer"`
}

type worker struct {
	client       *ariane.Client
	producer     *ariane.Producer
	receipts     []ariane.Receipt
	consumers    map[string]*ariane.Consumer
	deliveries   []ariane.Delivery
	owners       []*ariane.Consumer
	producers    map[string]*ariane.TransactionProducer
	transactions []*ariane.Transaction

	mu      sync.Mutex
	answers map[string]string
	checked []string
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
	for lines.Scan() {
		var asked command
		err := json.Unmarshal(lines.Bytes(), &asked)
		var said any
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			said, err = w.do(ctx, asked)
			cancel()
		}
		answer := map[string]any{"ok": said}
		if err != nil {
			answer = map[string]any{"error": told(err)}
		}
		if err := out.Encode(answer); err != nil {
			panic(err)
		}
	}
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
		client, err := ariane.NewClient(asked.NameServers, ariane.Options{})
		if err != nil {
			return nil, err
		}
		w.client, w.producer = client, ariane.NewProducer(client)
		return map[string]any{"language": "go"}, nil
	case "send":
		return w.send(ctx, asked)
	case "recall":
		return w.producer.Recall(ctx, asked.Topic, w.receipts[asked.Numbers[0]])
	case "receive":
		return w.receive(ctx, asked)
	case "ack", "nack", "extend":
		return nil, w.settle(ctx, asked)
	case "transactions":
		return nil, w.openTransactions(ctx, asked)
	case "begin":
		transaction, err := w.producers[asked.Group].Begin(ctx, sent(asked.Messages[0]))
		if err != nil {
			return nil, err
		}
		w.transactions = append(w.transactions, transaction)
		return map[string]any{"number": len(w.transactions) - 1, "id": transaction.ID()}, nil
	case "commit":
		return nil, w.transactions[asked.Numbers[0]].Commit(ctx)
	case "rollback":
		return nil, w.transactions[asked.Numbers[0]].Rollback(ctx)
	case "checked":
		w.mu.Lock()
		defer w.mu.Unlock()
		return append([]string{}, w.checked...), nil
	}
	return nil, fmt.Errorf("no such command: %q", asked.Do)
}

func sent(m message) ariane.Message {
	known := ariane.Message{
		Topic: m.Topic, Body: m.Body, Tag: m.Tag, Keys: m.Keys, Group: m.Group,
		Properties: m.Properties, ID: m.ID,
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
	receipts, err := w.producer.SendBatch(ctx, messages)
	if err != nil {
		return nil, err
	}
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

func (w *worker) receive(ctx context.Context, asked command) (any, error) {
	consumer := w.consumers[asked.Group]
	if consumer == nil {
		var err error
		consumer, err = ariane.NewConsumer(w.client, ariane.ConsumerOptions{
			Group: asked.Group, Topic: asked.Topic, Tags: asked.Tags, SQL: asked.SQL,
			MaxMessages:       asked.Max,
			InvisibleDuration: time.Duration(asked.InvisibleMs) * time.Millisecond,
		})
		if err != nil {
			return nil, err
		}
		w.consumers[asked.Group] = consumer
	}
	deliveries, err := consumer.Receive(ctx, time.Duration(asked.WaitMs)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	told := make([]message, len(deliveries))
	for position, each := range deliveries {
		told[position] = message{
			// Nothing is said as an empty list, and not as null.
			Topic: each.Topic, Body: append([]byte{}, each.Body...), Tag: each.Tag,
			Keys: append([]string{}, each.Keys...), Group: each.Group,
			Properties: maps.Collect(maps.All(each.Properties)), ID: each.ID, Attempt: each.Attempt, Number: len(w.deliveries),
		}
		w.deliveries = append(w.deliveries, each)
		w.owners = append(w.owners, consumer)
	}
	return told, nil
}

func (w *worker) settle(ctx context.Context, asked command) error {
	consumer := w.owners[asked.Numbers[0]]
	if asked.Do == "extend" {
		duration := time.Duration(asked.InvisibleMs) * time.Millisecond
		return consumer.ChangeInvisibleDuration(ctx, &w.deliveries[asked.Numbers[0]], duration)
	}
	deliveries := make([]ariane.Delivery, len(asked.Numbers))
	for position, number := range asked.Numbers {
		deliveries[position] = w.deliveries[number]
	}
	if asked.Do == "ack" {
		return consumer.Ack(ctx, deliveries...)
	}
	delay := time.Duration(asked.DelayMs) * time.Millisecond
	return consumer.Nack(ctx, ariane.Nack{Delay: &delay, DeadLetter: asked.DeadLetter}, deliveries...)
}

func (w *worker) openTransactions(ctx context.Context, asked command) error {
	w.mu.Lock()
	w.answers[asked.Group] = asked.Answer
	w.mu.Unlock()
	if w.producers[asked.Group] != nil {
		return nil
	}
	check := func(_ context.Context, message ariane.Message) (ariane.Outcome, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.checked = append(w.checked, message.ID)
		switch w.answers[asked.Group] {
		case "commit":
			return ariane.Commit, nil
		case "rollback":
			return ariane.Rollback, nil
		}
		return ariane.Unknown, nil
	}
	producer, err := ariane.NewTransactionProducer(ctx, w.client, asked.Group, []string{asked.Topic}, check)
	w.producers[asked.Group] = producer
	return err
}
