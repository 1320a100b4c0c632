package ariane

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/grpc/status"

	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// The layout of a record in the broker's log is drawn in docs/formats.md of ArianeMQ. Messages that are packed so cost a
// broker half of what plain ones do.
const (
	recordHeaderBytes    = 88
	recordMagic          = 0xDAA320A7
	recordTopicMax       = 127
	recordKeysMax        = 254
	recordPropertiesSure = 30_000 // Of words, less than brokers take with what stands between them.
	sequenceValueBytes   = 38
	sequencePrefix       = "__PSEQ#\x01"
	emptyChecksum        = "__CRC32#\x010000000000\x02"
	maskOfBodyCRC        = 0x7FFFFFFF
	systemFlagCompressed = 1
	traceParent          = "traceparent"
	traceParentBytes     = 55
	traceParentsMax      = 16
)

var systemFlags = map[commonv1.Compression]uint32{
	commonv1.Compression_COMPRESSION_UNSPECIFIED: 0,
	commonv1.Compression_COMPRESSION_LZ4:         systemFlagCompressed | 1<<8,
	commonv1.Compression_COMPRESSION_ZSTD:        systemFlagCompressed | 2<<8,
	commonv1.Compression_COMPRESSION_ZLIB:        systemFlagCompressed | 3<<8,
}

// areUsual says whether messages can be packed. What the broker would do more with goes to it plainly, and so does
// what it might refuse: it says why.
func areUsual(messages []*commonv1.Message) bool {
	return !slices.ContainsFunc(messages, func(each *commonv1.Message) bool { return !isUsual(each) })
}

func isUsual(message *commonv1.Message) bool {
	if message.DeliveryTime != nil || message.ReplyAddress != nil || len(message.Topic) > recordTopicMax || len(message.Keys) > recordKeysMax {
		return false
	}
	words := append([]string{message.Topic, message.UniqueId}, message.Keys...)
	if message.Tag != "" {
		words = append(words, message.Tag)
	}
	if !isOf(message.MessageGroup, isPrinted) || slices.ContainsFunc(words, func(word string) bool { return word == "" || !isOf(word, isWord) }) {
		return false
	}
	size := len(message.MessageGroup)
	for _, word := range words {
		size += len(word)
	}
	for name, value := range message.Properties {
		size += len(name) + len(value) + 2
		// Those of the system begin otherwise.
		if name == "" || name[0] < 'a' || name[0] > 'z' || value == "" {
			return false
		}
		if !isOf(name, isShown) || !isOf(value, isShown) {
			return false
		}
	}
	return message.Tag != "*" && !strings.Contains(message.Tag, "|") && size <= recordPropertiesSure
}

func isOf(text string, allowed func(rune) bool) bool {
	return !strings.ContainsFunc(text, func(each rune) bool { return !allowed(each) })
}

func isWord(each rune) bool    { return each > ' ' && each <= '~' }
func isPrinted(each rune) bool { return each >= ' ' && each <= '~' }
func isShown(each rune) bool   { return !unicode.IsControl(each) }

// propertiesOf are those of a record but for its place in the stream and its checksum.
func propertiesOf(message *commonv1.Message) []byte {
	var encoded []byte
	add := func(name, value string) {
		encoded = append(append(append(append(encoded, name...), 1), value...), 2)
	}
	for _, name := range slices.Sorted(maps.Keys(message.Properties)) {
		add(name, message.Properties[name])
	}
	if message.Priority != nil {
		add("_SYS_MSG_PRIORITY_", strconv.Itoa(int(*message.Priority)))
	}
	if len(message.Keys) > 0 {
		add("KEYS", strings.Join(message.Keys, " "))
	}
	if message.Tag != "" {
		add("TAGS", message.Tag)
	}
	add("UNIQ_KEY", message.UniqueId)
	if message.MessageGroup != "" {
		add("__SHARDINGKEY", message.MessageGroup)
	}
	return encoded
}

// tableOf packs messages of one queue as a table of one row.
func tableOf(target queue, producer int64, line *lane, messages []*commonv1.Message) *brokerv1.AppendRecordsRequest {
	little := binary.LittleEndian
	table := &brokerv1.AppendTable{
		Topics:         []string{target.topic},
		QueueIds:       little.AppendUint32(nil, uint32(target.id)),
		RecordCounts:   little.AppendUint32(nil, uint32(len(messages))),
		ProducerId:     producer,
		ProducerEpochs: little.AppendUint32(nil, uint32(line.epoch)),
		FirstSequences: little.AppendUint64(nil, uint64(line.next)),
	}
	var records []byte
	place := 0 // Of the number in the stream.
	for number, message := range messages {
		begin := len(records)
		properties := propertiesOf(message)
		records = appendHeader(records, message)
		length := len(properties) + len(emptyChecksum)
		if number == 0 {
			length += len(sequencePrefix) + sequenceValueBytes + 1
		}
		records = binary.BigEndian.AppendUint16(records, uint16(length))
		if number == 0 {
			records = append(records, sequencePrefix...)
			place = len(records)
			records = append(append(records, make([]byte, sequenceValueBytes)...), 2)
		}
		records = append(append(records, properties...), emptyChecksum...)
		size := uint32(len(records) - begin)
		binary.BigEndian.PutUint32(records[begin:], size)
		table.RecordSizes = little.AppendUint32(table.RecordSizes, size)
		table.TagCodes = little.AppendUint32(table.TagCodes, uint32(javaHash(0, message.Tag)))
		table.KeyCounts = append(table.KeyCounts, byte(1+len(message.Keys)))
		for _, key := range append([]string{message.UniqueId}, message.Keys...) {
			table.KeyHashes = little.AppendUint32(table.KeyHashes, keyHash(message.Topic, key))
		}
	}
	copy(records[place:], sequenceValue(producer, line, len(messages), len(records)))
	table.RecordsCrc32 = crc32.ChecksumIEEE(records)
	return &brokerv1.AppendRecordsRequest{Table: table, TableRecords: records, TraceParents: traceParentsOf(messages)}
}

// traceParentsOf are the contexts of the sampled spans in which messages were sent: the broker looks for them nowhere else.
func traceParentsOf(messages []*commonv1.Message) []string {
	var found []string
	for _, message := range messages {
		context := message.Properties[traceParent]
		sampled := len(context) == traceParentBytes && strings.IndexByte("13579bdf", context[traceParentBytes-1]) >= 0
		if sampled && len(found) < traceParentsMax && !slices.Contains(found, context) {
			found = append(found, context)
		}
	}
	return found
}

// appendHeader adds what is before the properties, with zeros where the broker writes, and where the size comes.
func appendHeader(records []byte, message *commonv1.Message) []byte {
	var header [recordHeaderBytes]byte
	big := binary.BigEndian
	big.PutUint32(header[4:], recordMagic)
	big.PutUint32(header[8:], crc32.ChecksumIEEE(message.Body)&maskOfBodyCRC)
	big.PutUint32(header[36:], systemFlags[message.Compression])
	big.PutUint64(header[40:], uint64(message.CreateTime.AsTime().UnixMilli()))
	big.PutUint32(header[84:], uint32(len(message.Body)))
	records = append(append(records, header[:]...), message.Body...)
	return append(append(records, byte(len(message.Topic))), message.Topic...)
}

func sequenceValue(producer int64, line *lane, count, size int) []byte {
	big := binary.BigEndian
	numbers := big.AppendUint32(big.AppendUint64(nil, uint64(producer)), uint32(line.epoch))
	numbers = big.AppendUint32(big.AppendUint32(big.AppendUint64(numbers, uint64(line.next)), uint32(count)), uint32(size))
	return base64.RawStdEncoding.AppendEncode(nil, numbers)
}

// javaHash is that of Java's strings, of ASCII.
func javaHash(before int32, text string) int32 {
	for place := range len(text) {
		before = 31*before + int32(text[place])
	}
	return before
}

func keyHash(topic, key string) uint32 {
	hash := javaHash(javaHash(0, topic+"#"), key)
	if hash < 0 {
		hash = -hash
	}
	return uint32(max(hash, 0)) // The smallest number has no positive counterpart.
}

// storedOf reads what became of a table of one row.
func storedOf(answer *brokerv1.AppendRecordsResponse, target queue, messages []*commonv1.Message) ([]Receipt, error) {
	result := answer.GetTableResult()
	level, duplicate := result.GetAcknowledgedLevel(), false
	for _, row := range result.GetRows() {
		if row.Error != nil {
			return nil, status.ErrorProto(row.Error)
		}
		level, duplicate = row.AcknowledgedLevel, row.Duplicate
	}
	if len(result.GetFirstQueueOffsets()) != 8 {
		return nil, errors.New("ariane: the broker did not say where it stored")
	}
	offset := int64(binary.LittleEndian.Uint64(result.FirstQueueOffsets))
	receipts := make([]Receipt, len(messages))
	for number, message := range messages {
		receipts[number] = Receipt{
			ID: message.UniqueId, BrokerName: target.broker, QueueID: target.id, Offset: offset + int64(number),
			Level: level, Duplicate: duplicate,
		}
	}
	return receipts, nil
}
