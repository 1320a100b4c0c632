// Speaks the lines of README.md and acts with RocketMQ's own Go client.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const awaitS = 5

type message struct {
	Topic       string            `json:"topic"`
	Body        []byte            `json:"body"`
	Tag         string            `json:"tag"`
	Keys        []string          `json:"keys"`
	Group       string            `json:"group"`
	Properties  map[string]string `json:"properties"`
	DeliverInMs int64             `json:"deliver_in_ms"`
	Priority    *int32            `json:"priority"`
}

type command struct {
	Call        int       `json:"call"`
	Do          string    `json:"do"`
	Endpoints   string    `json:"endpoints"`
	TLS         bool      `json:"tls"`
	Key         string    `json:"key"`
	Secret      string    `json:"secret"`
	Namespace   string    `json:"namespace"`
	TimeoutMs   int64     `json:"timeout_ms"`
	Topic       string    `json:"topic"`
	Group       string    `json:"group"`
	Tags        string    `json:"tags"`
	SQL         string    `json:"sql"`
	Messages    []message `json:"messages"`
	Recall      string    `json:"recall"`
	Max         int32     `json:"max"`
	InvisibleMs int64     `json:"invisible_ms"`
	Numbers     []int     `json:"numbers"`
	Fail        int32     `json:"fail"`
	TakeMs      int64     `json:"take_ms"`
	Answer      string    `json:"answer"`
}

type object = map[string]any

type client struct {
	once     sync.Once
	err      error
	producer rmq.Producer
	simple   rmq.SimpleConsumer
	push     rmq.PushConsumer
	answer   string
	said     []object
}

type delivery struct {
	from *client
	view *rmq.MessageView
}

type driver struct {
	sync.Mutex
	connected    command
	clients      map[string]*client
	deliveries   []delivery
	transactions []rmq.Transaction
}

func (d *driver) configuration(group string) *rmq.Config {
	c := d.connected
	return &rmq.Config{
		Endpoint:      c.Endpoints,
		NameSpace:     c.Namespace,
		ConsumerGroup: group,
		Credentials:   &credentials.SessionCredentials{AccessKey: c.Key, AccessSecret: c.Secret},
	}
}

// once starts a client for the first who asks for it.
func (d *driver) once(name string, start func(*client) error) (*client, error) {
	d.Lock()
	found, there := d.clients[name]
	if !there {
		found = &client{answer: "unknown"}
		d.clients[name] = found
	}
	d.Unlock()
	found.once.Do(func() { found.err = start(found) })
	if found.err != nil {
		d.Lock()
		delete(d.clients, name)
		d.Unlock()
	}
	return found, found.err
}

func (d *driver) producer(asked command) (*client, error) {
	return d.once("producer "+asked.Topic, func(c *client) error {
		check := func(view *rmq.MessageView) rmq.TransactionResolution {
			d.Lock()
			defer d.Unlock()
			c.said = append(c.said, object{"id": view.GetMessageId(), "body": view.GetBody()})
			switch c.answer {
			case "commit":
				return rmq.COMMIT
			case "rollback":
				return rmq.ROLLBACK
			}
			return rmq.UNKNOWN
		}
		producer, err := rmq.NewProducer(d.configuration(""),
			rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: check}),
			rmq.WithTopics(asked.Topic))
		if err != nil {
			return err
		}
		c.producer = producer
		return producer.Start()
	})
}

func wanted(asked command) map[string]*rmq.FilterExpression {
	filter := rmq.SUB_ALL
	if asked.SQL != "" {
		filter = rmq.NewFilterExpressionWithType(asked.SQL, rmq.SQL92)
	} else if asked.Tags != "" {
		filter = rmq.NewFilterExpression(asked.Tags)
	}
	return map[string]*rmq.FilterExpression{asked.Topic: filter}
}

func (d *driver) simple(asked command) (*client, error) {
	return d.once("simple "+asked.Group, func(c *client) error {
		simple, err := rmq.NewSimpleConsumer(d.configuration(asked.Group),
			rmq.WithSimpleAwaitDuration(awaitS*time.Second),
			rmq.WithSimpleSubscriptionExpressions(wanted(asked)))
		if err != nil {
			return err
		}
		c.simple = simple
		return simple.Start()
	})
}

func (d *driver) listen(asked command) (any, error) {
	_, err := d.once("push "+asked.Group, func(c *client) error {
		consume := func(view *rmq.MessageView) rmq.ConsumerResult {
			time.Sleep(time.Duration(asked.TakeMs) * time.Millisecond)
			d.Lock()
			c.said = append(c.said, received(view))
			d.Unlock()
			if view.GetDeliveryAttempt() <= asked.Fail {
				return rmq.FAILURE
			}
			return rmq.SUCCESS
		}
		push, err := rmq.NewPushConsumer(d.configuration(asked.Group),
			rmq.WithPushAwaitDuration(awaitS*time.Second),
			rmq.WithPushSubscriptionExpressions(wanted(asked)),
			rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}),
			rmq.WithPushConsumptionThreadCount(20),
			rmq.WithPushMaxCacheMessageCount(1024))
		if err != nil {
			return err
		}
		c.push = push
		return push.Start()
	})
	return nil, err
}

func sent(said message) (*rmq.Message, error) {
	made := &rmq.Message{Topic: said.Topic, Body: said.Body}
	if said.Tag != "" {
		made.SetTag(said.Tag)
	}
	if len(said.Keys) > 0 {
		made.SetKeys(said.Keys...)
	}
	for name, value := range said.Properties {
		made.AddProperty(name, value)
	}
	if said.Group != "" {
		made.SetMessageGroup(said.Group)
	}
	if said.DeliverInMs != 0 {
		made.SetDelayTimestamp(time.Now().Add(time.Duration(said.DeliverInMs) * time.Millisecond))
	}
	if said.Priority != nil {
		return made, made.SetPriority(*said.Priority)
	}
	return made, nil
}

func received(view *rmq.MessageView) object {
	text := func(found *string) string {
		if found == nil {
			return ""
		}
		return *found
	}
	keys := append([]string{}, view.GetKeys()...)
	sort.Strings(keys)
	properties := view.GetProperties()
	if properties == nil {
		properties = map[string]string{}
	}
	return object{
		"topic": view.GetTopic(), "body": view.GetBody(), "tag": text(view.GetTag()),
		"keys": keys, "group": text(view.GetMessageGroup()), "properties": properties,
		"id": view.GetMessageId(), "attempt": view.GetDeliveryAttempt(),
		// The client does not tell what it found.
		"corrupted": false,
		"at_ms":     float64(time.Now().UnixMicro()) / 1000,
	}
}

func (d *driver) perform(asked command) (any, error) {
	background := context.Background()
	switch asked.Do {
	case "connect":
		d.connected = asked
		rmq.EnableSsl = asked.TLS
		return nil, nil
	case "send":
		from, err := d.producer(asked)
		if err != nil {
			return nil, err
		}
		receipts := []object{}
		for _, each := range asked.Messages {
			made, err := sent(each)
			if err != nil {
				return nil, err
			}
			said, err := from.producer.Send(background, made)
			if err != nil {
				return nil, err
			}
			receipts = append(receipts, object{"id": said[0].MessageID, "recall": said[0].RecallHandle})
		}
		return receipts, nil
	case "recall":
		from, err := d.producer(asked)
		if err != nil {
			return nil, err
		}
		return from.producer.Recall(background, asked.Topic, asked.Recall)
	case "receive":
		return d.receive(asked)
	case "ack", "extend":
		for _, number := range asked.Numbers {
			d.Lock()
			held := d.deliveries[number]
			d.Unlock()
			var err error
			if asked.Do == "ack" {
				err = held.from.simple.Ack(background, held.view)
			} else {
				invisible := time.Duration(asked.InvisibleMs) * time.Millisecond
				err = held.from.simple.ChangeInvisibleDuration(held.view, invisible)
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	case "listen":
		return d.listen(asked)
	case "heard":
		d.Lock()
		defer d.Unlock()
		from := d.clients["push "+asked.Group]
		heard := append([]object{}, from.said...)
		from.said = nil
		return heard, nil
	case "leave":
		d.leave(asked.Group)
		return nil, nil
	}
	return d.transact(asked)
}

func (d *driver) receive(asked command) (any, error) {
	from, err := d.simple(asked)
	if err != nil {
		return nil, err
	}
	invisible := time.Duration(asked.InvisibleMs) * time.Millisecond
	views, err := from.simple.Receive(context.Background(), asked.Max, invisible)
	if status, is := rmq.AsErrRpcStatus(err); is && status.GetCode() == 40401 {
		// The client makes an error of a receive that finds nothing.
		err = nil
	}
	if err != nil {
		return nil, err
	}
	found := []object{}
	d.Lock()
	defer d.Unlock()
	for _, view := range views {
		said := received(view)
		said["number"] = len(d.deliveries)
		d.deliveries = append(d.deliveries, delivery{from, view})
		found = append(found, said)
	}
	return found, nil
}

func (d *driver) leave(group string) {
	for _, kind := range []string{"push ", "simple "} {
		d.Lock()
		from, there := d.clients[kind+group]
		delete(d.clients, kind+group)
		d.Unlock()
		if there && from.push != nil {
			from.push.GracefulStop()
		} else if there && from.simple != nil {
			from.simple.GracefulStop()
		}
	}
}

func (d *driver) transact(asked command) (any, error) {
	switch asked.Do {
	case "commit":
		return nil, d.transactions[asked.Numbers[0]].Commit()
	case "rollback":
		return nil, d.transactions[asked.Numbers[0]].RollBack()
	}
	from, err := d.producer(asked)
	if err != nil {
		return nil, err
	}
	switch asked.Do {
	case "transactions":
		d.Lock()
		defer d.Unlock()
		from.answer = asked.Answer
		return nil, nil
	case "begin":
		made, err := sent(asked.Messages[0])
		if err != nil {
			return nil, err
		}
		transaction := from.producer.BeginTransaction()
		said, err := from.producer.SendWithTransaction(context.Background(), made, transaction)
		if err != nil {
			return nil, err
		}
		d.Lock()
		defer d.Unlock()
		d.transactions = append(d.transactions, transaction)
		return object{"number": len(d.transactions) - 1, "id": said[0].MessageID}, nil
	case "checked":
		d.Lock()
		defer d.Unlock()
		return append([]object{}, from.said...), nil
	}
	return nil, fmt.Errorf("no such command: %s", asked.Do)
}

func main() {
	d := &driver{clients: map[string]*client{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	var writing sync.Mutex
	var asked sync.WaitGroup
	for lines.Scan() {
		var each command
		if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
			panic(err)
		}
		asked.Add(1)
		go func() {
			defer asked.Done()
			said := object{"call": each.Call}
			if ok, err := d.perform(each); err != nil {
				reason := "ERROR"
				if status, is := rmq.AsErrRpcStatus(err); is {
					reason = fmt.Sprint(status.GetCode())
				}
				said["error"] = object{"reason": reason, "text": err.Error(), "outcome_unknown": false}
			} else {
				said["ok"] = ok
			}
			writing.Lock()
			defer writing.Unlock()
			out.Encode(said)
		}()
	}
	asked.Wait()
	for _, each := range d.clients {
		if each.producer != nil {
			each.producer.GracefulStop()
		}
	}
}
