package ariane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

const (
	recordMagicV2     = 0xDAA320AB // Its topic has a length of two bytes.
	flagBornHostIPv6  = 0x10
	flagStoreHostIPv6 = 0x20
	ipv6MoreBytes     = 12 // Of a header, for each address.
	maskOfCompression = 7 << 8
	bodyLengthBytes   = 4
	// numberBytes is of a size, and of a number of attempts, in an answer.
	numberBytes = 4
	// priorityDigitsMax is what a number of 32 bits needs.
	priorityDigitsMax = 10
	// durationMillisecondsMax is what the contract's durations hold: about 10,000 years.
	durationMillisecondsMax = 315_576_000_000_000
)

var errNoRecord = errors.New("the bytes are no record")

// hiddenProperties are those of the system that no field of a message stands for, or only where they are whole.
var hiddenProperties = map[string]bool{
	"WAIT": true, "DELAY": true, "TIMER_DELIVER_MS": true, "TIMER_OUT_MS": true, "TIMER_DELAY_MS": true,
	"TIMER_DELAY_SEC": true, "TIMER_DEQUEUE_MS": true, "TIMER_DEL_UNIQKEY": true, "REAL_TOPIC": true, "REAL_QID": true,
	"TRAN_MSG": true, "PGROUP": true, "__transactionId__": true, "RETRY_TOPIC": true, "ORIGIN_MESSAGE_ID": true,
	"ORIGIN_QUEUE_ID": true, "ORIGIN_QUEUE_OFFSET": true, "RETURNED_OFFSET": true, "RETURN_ID": true, "LAST_ERROR": true,
	"DLQ_ORIGIN_TOPIC": true, "DLQ_ORIGIN_MESSAGE_ID": true, "DLQ_REASON": true, "CONSUMER_DEATHS": true,
	"REDRIVEN_FROM": true, "EXPIRES_AT_MS": true, "__PSEQ#": true, "__CRC32#": true, "MSG_TYPE": true,
}

// deliveriesOf reads the records that a queue of a broker gave: those before the damage, if an error says that there is some.
// Room is what compressed bodies may still become.
func deliveriesOf(broker string, queue *brokerv1.ReceivedRecords, room *int) ([]Delivery, error) {
	little := binary.LittleEndian
	count := len(queue.RecordSizes) / numberBytes
	deliveries := make([]Delivery, 0, count)
	until := time.UnixMilli(queue.InvisibleUntilMs).UTC()
	rest, attempts := queue.Records, queue.Attempts
	same := len(attempts) == numberBytes // The number of attempts is the same for all.
	if len(queue.RecordSizes)%numberBytes != 0 || !same && len(attempts) != len(queue.RecordSizes) {
		return nil, damaged(broker, queue)
	}
	for number := range count {
		size := uint64(little.Uint32(queue.RecordSizes[number*numberBytes:]))
		if size > uint64(len(rest)) {
			return deliveries, damaged(broker, queue)
		}
		delivery, err := deliveryOf(rest[:size], room)
		if err != nil {
			return deliveries, damaged(broker, queue)
		}
		rest = rest[size:]
		delivery.BrokerName, delivery.QueueID, delivery.InvisibleUntil = broker, queue.QueueId, until
		delivery.Attempt = int(int32(little.Uint32(attempts))) + 1
		if !same {
			attempts = attempts[numberBytes:]
		}
		delivery.receipt = queue.Receipt
		deliveries = append(deliveries, delivery)
	}
	if len(rest) > 0 {
		return deliveries, damaged(broker, queue)
	}
	return deliveries, nil
}

func damaged(broker string, queue *brokerv1.ReceivedRecords) error {
	return &Error{
		Code: codes.DataLoss, Reason: "RECORD_CORRUPTED",
		Message: queue.Topic + "@" + broker + "#" + strconv.Itoa(int(queue.QueueId)) + ": " + errNoRecord.Error(),
	}
}

// deliveryOf reads one record: its message, and its offset. Nothing of what it returns lies in the record.
func deliveryOf(record []byte, room *int) (Delivery, error) {
	big := binary.BigEndian
	if len(record) < recordHeaderBytes || uint64(big.Uint32(record)) != uint64(len(record)) {
		return Delivery{}, errNoRecord
	}
	topicLengthBytes := 1
	switch big.Uint32(record[4:]) {
	case recordMagic:
	case recordMagicV2:
		topicLengthBytes = 2
	default:
		return Delivery{}, errNoRecord
	}
	flags, bodyLengthAt := big.Uint32(record[36:]), recordHeaderBytes-bodyLengthBytes
	for _, flag := range []uint32{flagBornHostIPv6, flagStoreHostIPv6} {
		if flags&flag != 0 {
			bodyLengthAt += ipv6MoreBytes
		}
	}
	parts := countedParts{rest: record[min(bodyLengthAt, len(record)):]}
	body, topic, properties := parts.next(bodyLengthBytes), parts.next(topicLengthBytes), parts.next(2)
	if parts.short || len(parts.rest) > 0 || !utf8.Valid(topic) {
		return Delivery{}, errNoRecord
	}
	delivery := Delivery{Message: Message{Topic: string(topic)}, Offset: int64(big.Uint64(record[20:]))}
	delivery.Body, delivery.Compression = unpacked(bytes.Clone(body), compressionOf(flags), room)
	delivery.readProperties(strings.ToValidUTF8(string(properties), "\uFFFD"))
	return delivery, nil
}

// countedParts are parts that each have their length before them, big-endian.
type countedParts struct {
	rest  []byte
	short bool // Whether a part was not whole.
}

func (p *countedParts) next(lengthBytes int) []byte {
	end := uint64(lengthBytes)
	if end <= uint64(len(p.rest)) {
		length := uint64(0)
		for _, each := range p.rest[:lengthBytes] {
			length = length<<8 | uint64(each)
		}
		end += length
	}
	if end > uint64(len(p.rest)) {
		p.short = true
		return nil
	}
	part := p.rest[lengthBytes:end]
	p.rest = p.rest[end:]
	return part
}

func compressionOf(flags uint32) Compression {
	if flags&systemFlagCompressed == 0 {
		return Uncompressed
	}
	if flags&maskOfCompression == 0 {
		return Zlib // RocketMQ before 5 sets no type.
	}
	for kind, own := range systemFlags {
		if own == systemFlagCompressed|flags&maskOfCompression {
			return kind
		}
	}
	return Uncompressed
}

// readProperties reads the pairs of a record. Of a repeated name the last one counts.
func (d *Delivery) readProperties(pairs string) {
	var asks commonv1.ReplyAddress
	for pair := range strings.SplitSeq(pairs, "\x02") {
		name, value, _ := strings.Cut(pair, "\x01")
		if name == "" || value == "" {
			continue
		}
		switch name {
		case "TAGS":
			d.Tag = value
		case "KEYS":
			d.Keys = strings.FieldsFunc(value, func(each rune) bool { return each == ' ' })
		case "UNIQ_KEY":
			d.ID = value
		case "__SHARDINGKEY":
			d.Group = value
		case "_SYS_MSG_PRIORITY_":
			d.Priority = priorityOf(value)
		case "CORRELATION_ID":
			asks.CorrelationId = value
		case "REPLY_TO_CLIENT":
			asks.ClientId = value
		case "CLUSTER":
			asks.ClusterName = value
		case "TTL":
			asks.TimeToLive = timeToLiveOf(value)
		default:
			if hiddenProperties[name] {
				continue
			}
			if d.Properties == nil {
				d.Properties = map[string]string{}
			}
			d.Properties[name] = value
		}
	}
	d.readReplyAddress(&asks)
}

// priorityOf is a number of 32 bits in at most ten digits, as brokers read it; 0 where it is none.
func priorityOf(text string) int32 {
	priority, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || len(strings.TrimPrefix(text, "-")) > priorityDigitsMax {
		return 0
	}
	return int32(priority)
}

// timeToLiveOf is that of so many milliseconds; nil where they are none, or more than the contract's durations hold.
func timeToLiveOf(text string) *durationpb.Duration {
	milliseconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || milliseconds < 0 || milliseconds > durationMillisecondsMax {
		return nil
	}
	return &durationpb.Duration{Seconds: milliseconds / 1000, Nanos: int32(milliseconds % 1000 * int64(time.Millisecond))}
}

// readReplyAddress keeps the address of a request, or of a reply: of others some of it is missing.
func (d *Delivery) readReplyAddress(asks *commonv1.ReplyAddress) {
	if asks.CorrelationId == "" || asks.ClientId == "" {
		return
	}
	asks.ReplyTopic = asks.ClusterName + replySuffix
	if asks.ClusterName == "" {
		cluster, isReply := strings.CutSuffix(d.Topic, replySuffix)
		if !isReply {
			return
		}
		asks.ClusterName, asks.ReplyTopic = cluster, d.Topic
	}
	d.replyTo = asks
}

// rangesOf are queue offsets as the contract has them: first offset and count of each run of them.
func rangesOf(offsets []int64) []byte {
	offsets = slices.Compact(slices.Sorted(slices.Values(offsets)))
	little := binary.LittleEndian
	var ranges []byte
	for first := 0; first < len(offsets); {
		end := first + 1
		for end < len(offsets) && offsets[end] == offsets[end-1]+1 {
			end++
		}
		ranges = little.AppendUint64(little.AppendUint64(ranges, uint64(offsets[first])), uint64(end-first))
		first = end
	}
	return ranges
}
