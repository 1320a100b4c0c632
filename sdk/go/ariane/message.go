package ariane

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// Message is what a producer sends.
type Message struct {
	Topic string
	Body  []byte
	// Tag is one coarse label to filter by. Optional.
	Tag string
	// Keys find the message again. Optional.
	Keys []string
	// Group keeps messages in order: those of one group go to one queue. Optional.
	Group string
	// Properties are the application's own. Optional.
	Properties map[string]string
	// DeliverAt is when the message becomes visible. Zero: at once.
	DeliverAt time.Time
	// Priority is higher for messages that consumers with ByPriority get first.
	Priority int32
	// ID is unique for ever; made when it is empty.
	ID string
}

// Receipt says where a message was stored, and how safely.
type Receipt struct {
	// ID is the message's.
	ID         string
	BrokerName string
	QueueID    int32
	Offset     int64
	// Level is how safe the message is.
	Level commonv1.AcknowledgedLevel
	// RecallHandle takes a message with a delivery time back; empty for others.
	RecallHandle string
	// Duplicate says that an earlier try of this send had stored it.
	Duplicate bool
}

// Delivery is a message in a consumer's hands.
type Delivery struct {
	Message
	BrokerName string
	QueueID    int32
	Offset     int64
	// Attempt counts deliveries of the message, this one included: 1 for the first.
	Attempt int
	// Compression is how Body is still compressed: not at all, unless it is damaged.
	Compression Compression
	// InvisibleUntil is when others see the message again, unless it is settled.
	InvisibleUntil time.Time

	receipt []byte                 // Settles it, by its offset.
	replyTo *commonv1.ReplyAddress // Who waits for a reply; nil: nobody.
}

// check refuses texts that no call can carry.
func (m *Message) check() error {
	texts := append([]string{m.Topic, m.Tag, m.Group, m.ID}, m.Keys...)
	for name, value := range m.Properties {
		texts = append(texts, name, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("ariane: %q is not UTF-8; only a body may hold any bytes", text)
		}
	}
	return nil
}

// wire is the message as the contract has it. All that the broker would fill in is filled in here, so
// that a repeat is the same message to the byte.
func (m *Message) wire(kind commonv1.MessageType, compression Compression) *commonv1.Message {
	if m.ID == "" {
		m.ID = newID()
	}
	body, compression := packed(m.Body, compression)
	message := &commonv1.Message{
		Topic:        m.Topic,
		Body:         body,
		Compression:  compression,
		Tag:          m.Tag,
		Keys:         m.Keys,
		MessageGroup: m.Group,
		Properties:   m.Properties,
		UniqueId:     m.ID,
		MessageType:  kind,
		CreateTime:   timestamppb.Now(),
	}
	if m.Priority != 0 {
		message.Priority = &m.Priority
	}
	if kind != commonv1.MessageType_MESSAGE_TYPE_UNSPECIFIED {
		return message
	}
	switch {
	case !m.DeliverAt.IsZero():
		message.DeliveryTime = timestamppb.New(m.DeliverAt)
		message.MessageType = commonv1.MessageType_MESSAGE_TYPE_DELAY
	case m.Group != "":
		message.MessageType = commonv1.MessageType_MESSAGE_TYPE_FIFO
	}
	return message
}

// messageOf is what was sent, and how its body is still compressed: not at all, unless it is damaged.
func messageOf(message *commonv1.Message) (Message, Compression) {
	body, compression := unpacked(message.Body, message.Compression, new(bodyBytesMax))
	known := Message{
		Topic:      message.Topic,
		Body:       body,
		Tag:        message.Tag,
		Keys:       message.Keys,
		Group:      message.MessageGroup,
		Properties: message.Properties,
		Priority:   message.GetPriority(),
		ID:         message.UniqueId,
	}
	if message.DeliveryTime != nil {
		known.DeliverAt = message.DeliveryTime.AsTime()
	}
	return known, compression
}

func newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // Never fails: the program ends where there is no randomness.
	return hex.EncodeToString(random[:])
}
