package ariane

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// goldenRecords are those that every reader of the format is tried with.
const goldenRecords = "../../../storage/record/tests/golden/"

func golden(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(goldenRecords + name)
	if os.IsNotExist(err) {
		t.Skip("the golden records are in the repository, and not in the module")
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRecordsAreRead(t *testing.T) {
	var cases map[string]struct {
		Topic, Body string
		Properties  map[string]string
		QueueOffset int64  `json:"queue_offset"`
		SystemFlag  uint32 `json:"system_flag"`
	}
	if err := json.Unmarshal(golden(t, "cases.json"), &cases); err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	for name, wanted := range cases {
		record := golden(t, name+".bin")
		delivery, err := deliveryOf(record, new(answerBytesMax))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		known := map[string]string{
			"TAGS": delivery.Tag, "KEYS": strings.Join(delivery.Keys, " "), "UNIQ_KEY": delivery.ID, "__SHARDINGKEY": delivery.Group,
		}
		maps.DeleteFunc(known, func(_, value string) bool { return value == "" })
		maps.Copy(known, delivery.Properties)
		maps.DeleteFunc(wanted.Properties, func(name, _ string) bool { return hiddenProperties[name] })
		if delivery.Topic != wanted.Topic || delivery.Offset != wanted.QueueOffset || !maps.Equal(known, wanted.Properties) {
			t.Errorf("%s: %+v, %v", name, delivery, known)
		}
		stored, err := hex.DecodeString(wanted.Body)
		body, compression := unpacked(stored, compressionOf(wanted.SystemFlag), new(answerBytesMax))
		if err != nil || !bytes.Equal(delivery.Body, body) || delivery.Compression != compression {
			t.Errorf("%s: %x, %v", name, delivery.Body, delivery.Compression)
		}
		for size := range record {
			if _, err := deliveryOf(record[:size], new(answerBytesMax)); err == nil {
				t.Errorf("%s: %d bytes of it are taken for a record", name, size)
			}
		}
		for place := range record { // Of any lengths: it may be taken, or not.
			broken := slices.Clone(record)
			broken[place] ^= 0x81
			_, _ = deliveryOf(broken, new(answerBytesMax))
		}
	}
}

// recordOf is a record with these pairs of properties, names and values in turn.
func recordOf(topic string, offset int64, pairs ...string) []byte {
	record := appendHeader(nil, &commonv1.Message{Topic: topic})
	properties := ""
	for place := 0; place < len(pairs); place += 2 {
		properties += pairs[place] + "\x01" + pairs[place+1] + "\x02"
	}
	record = append(binary.BigEndian.AppendUint16(record, uint16(len(properties))), properties...)
	binary.BigEndian.PutUint32(record, uint32(len(record)))
	binary.BigEndian.PutUint64(record[20:], uint64(offset))
	return record
}

func TestPropertiesOfTheSystemBecomeFields(t *testing.T) {
	delivery, err := deliveryOf(recordOf(topic, 7, "color", "blue", "color", "red", "WAIT", "true", "_SYS_MSG_PRIORITY_", "-3",
		"KEYS", "a  b ", "", "nameless", "empty", "", "__CRC32#", "0123456789", "EXPIRES_AT_MS", "1"), new(answerBytesMax))
	if err != nil || delivery.Priority != -3 || !slices.Equal(delivery.Keys, []string{"a", "b"}) ||
		!maps.Equal(delivery.Properties, map[string]string{"color": "red"}) || delivery.replyTo != nil {
		t.Fatal(delivery, err)
	}
	for _, text := range []string{"x", "2147483648", "", "+7", "0000000000007", "--7", "-+7"} {
		if delivery, err = deliveryOf(recordOf(topic, 7, "_SYS_MSG_PRIORITY_", text), new(answerBytesMax)); err != nil || delivery.Priority != 0 {
			t.Fatal(text, delivery, err)
		}
	}
	request := []string{"CORRELATION_ID", "c-1", "REPLY_TO_CLIENT", "me", "TTL", "1500", "MSG_TYPE", "reply"}
	for of, wanted := range map[string]string{topic: "", "main_REPLY_TOPIC": "main_REPLY_TOPIC"} {
		delivery, err = deliveryOf(recordOf(of, 7, request...), new(answerBytesMax))
		if err != nil || delivery.replyTo.GetReplyTopic() != wanted || len(delivery.Properties) > 0 {
			t.Fatal(delivery, err)
		}
	}
	delivery, err = deliveryOf(recordOf(topic, 7, append(request, "CLUSTER", "main")...), new(answerBytesMax))
	asks := delivery.replyTo
	if err != nil || asks.ReplyTopic != "main_REPLY_TOPIC" || asks.ClusterName != "main" || asks.CorrelationId != "c-1" ||
		asks.ClientId != "me" || asks.TimeToLive.AsDuration() != 1500*time.Millisecond {
		t.Fatal(delivery, err)
	}
}

func TestATimeToLiveIsThatOfTheContractOrNone(t *testing.T) {
	for text, wanted := range map[string]*durationpb.Duration{
		"1500":                {Seconds: 1, Nanos: 500_000_000},
		"9223372036855":       {Seconds: 9_223_372_036, Nanos: 855_000_000}, // More than a time.Duration holds.
		"315576000000000":     {Seconds: 315_576_000_000},
		"315576000000001":     nil,
		"9223372036854775807": nil,
		"9223372036854775808": nil,
		"-1":                  nil,
		"x":                   nil,
	} {
		delivery, err := deliveryOf(recordOf(topic, 7, "CORRELATION_ID", "c-1", "REPLY_TO_CLIENT", "me", "CLUSTER", "main", "TTL", text), new(answerBytesMax))
		if err != nil || !proto.Equal(delivery.replyTo.GetTimeToLive(), wanted) {
			t.Error(text, delivery.replyTo.GetTimeToLive(), err)
		}
	}
}

func TestRecordsOfAQueueHaveTheirAttemptsAndOneReceipt(t *testing.T) {
	first, second := recordOf(topic, 7), recordOf(topic, 9, "UNIQ_KEY", "x")
	little := binary.LittleEndian
	queue := &brokerv1.ReceivedRecords{
		Topic: topic, QueueId: 3, Receipt: []byte("r"), InvisibleUntilMs: 5000,
		RecordSizes: little.AppendUint32(little.AppendUint32(nil, uint32(len(first))), uint32(len(second))),
		Records:     append(slices.Clone(first), second...),
	}
	for attempts, wanted := range map[string][]int{"\x00\x00\x00\x00": {1, 1}, "\x00\x00\x00\x00\x02\x00\x00\x00": {1, 3}} {
		queue.Attempts = []byte(attempts)
		found, err := deliveriesOf("broker-a", queue, new(answerBytesMax))
		if err != nil || len(found) != 2 || found[0].Attempt != wanted[0] || found[1].Attempt != wanted[1] || found[1].Offset != 9 ||
			found[0].BrokerName != "broker-a" || found[0].QueueID != 3 || found[0].InvisibleUntil.UnixMilli() != 5000 {
			t.Fatal(found, err)
		}
	}
	for what, spoil := range map[string]func(){
		"attempts":     func() { queue.Attempts = nil },
		"more":         func() { queue.Records = append(queue.Records, 0) },
		"less":         func() { queue.Records = queue.Records[:len(first)] },
		"odd attempts": func() { queue.Attempts = make([]byte, 3*numberBytes) },
		"odd sizes":    func() { queue.RecordSizes = append(slices.Clone(queue.RecordSizes), 0) },
		"size":         func() { queue.RecordSizes = []byte{0xFF, 0xFF, 0xFF, 0xFF} },
	} {
		attempts, records, sizes := queue.Attempts, queue.Records, queue.RecordSizes
		spoil()
		if _, err := deliveriesOf("broker-a", queue, new(answerBytesMax)); ReasonOf(err) != "RECORD_CORRUPTED" {
			t.Error(what, err)
		}
		queue.Attempts, queue.Records, queue.RecordSizes = attempts, records, sizes
	}
}

func TestBodiesOfAnAnswerBecomeNoMoreThanThereIsRoom(t *testing.T) {
	for _, kind := range []Compression{LZ4, Zstandard, Zlib} {
		room := 25_000
		stored, _ := packed(make([]byte, 10_000), kind)
		for place, wanted := range []Compression{Uncompressed, Uncompressed, kind, kind} {
			body, compression := unpacked(stored, kind, &room)
			if compression != wanted || wanted == kind && !bytes.Equal(body, stored) || wanted != kind && len(body) != 10_000 {
				t.Error(kind, place, compression, len(body))
			}
		}
		if body, compression := unpacked(make([]byte, 30_000), Uncompressed, &room); len(body) != 30_000 || compression != Uncompressed {
			t.Error("what is not compressed needs no room: ", compression)
		}
	}
}

func TestOffsetsAreToldAsRanges(t *testing.T) {
	for wanted, offsets := range map[string][]int64{
		"": {}, "5+1": {5}, "3+3": {5, 3, 4}, "1+1 3+2 9+1": {9, 1, 4, 3, 3},
	} {
		var found []string
		for ranges := rangesOf(offsets); len(ranges) > 0; ranges = ranges[16:] {
			first, count := binary.LittleEndian.Uint64(ranges), binary.LittleEndian.Uint64(ranges[8:])
			found = append(found, fmt.Sprintf("%d+%d", first, count))
		}
		if strings.Join(found, " ") != wanted {
			t.Error(offsets, found)
		}
	}
}
