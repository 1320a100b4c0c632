package ariane

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// Compression is how a body is compressed.
type Compression = commonv1.Compression

// The formats, which are those of RocketMQ.
const (
	Uncompressed = commonv1.Compression_COMPRESSION_UNSPECIFIED
	LZ4          = commonv1.Compression_COMPRESSION_LZ4
	Zstandard    = commonv1.Compression_COMPRESSION_ZSTD
	Zlib         = commonv1.Compression_COMPRESSION_ZLIB
)

const (
	// bodyBytesMax bounds what a body becomes: a small one may claim to be huge.
	bodyBytesMax = 32 << 20
	// levelMax is the highest level that every format has.
	levelMax = 9
)

// packing says what becomes of a body before it is sent: compressed if it is large, and becomes smaller.
type packing struct {
	kind     Compression
	bytesMin int
	compress func([]byte) ([]byte, error)
}

func newPacking(kind Compression, bytesMin, level int) (packing, error) {
	if level < 1 || level > levelMax {
		return packing{}, fmt.Errorf("ariane: compression level %d: from 1 to %d", level, levelMax)
	}
	made := packing{kind: kind, bytesMin: bytesMin}
	switch kind {
	case Uncompressed:
	case LZ4:
		made.compress = func(body []byte) ([]byte, error) {
			var out bytes.Buffer
			writer := lz4.NewWriter(&out)
			if err := writer.Apply(lz4Level(level), lz4.ChecksumOption(false)); err != nil {
				return nil, err
			}
			return written(&out, writer, body)
		}
	case Zstandard:
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
		if err != nil {
			return packing{}, err
		}
		made.compress = func(body []byte) ([]byte, error) { return encoder.EncodeAll(body, nil), nil }
	case Zlib:
		made.compress = func(body []byte) ([]byte, error) {
			var out bytes.Buffer
			writer, err := zlib.NewWriterLevel(&out, level)
			if err != nil {
				return nil, err
			}
			return written(&out, writer, body)
		}
	default:
		return packing{}, fmt.Errorf("ariane: compression %v is not known", kind)
	}
	return made, nil
}

// lz4Level is fast below 3, where LZ4 has but one level, as in the Python client.
func lz4Level(level int) lz4.Option {
	if level < 3 {
		return lz4.CompressionLevelOption(lz4.Fast)
	}
	return lz4.CompressionLevelOption(lz4.CompressionLevel(1 << (8 + level)))
}

func written(out *bytes.Buffer, writer io.WriteCloser, body []byte) ([]byte, error) {
	if _, err := writer.Write(body); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// pack is the body as it is sent, and how it is compressed then.
func (p packing) pack(body []byte) ([]byte, Compression) {
	if p.compress == nil || len(body) < p.bytesMin {
		return body, Uncompressed
	}
	packed, err := p.compress(body)
	if err != nil || len(packed) >= len(body) {
		return body, Uncompressed
	}
	return packed, p.kind
}

// unpacked is the body as it was before its producer compressed it; as stored, with how it is
// compressed, where it is damaged.
func unpacked(message *commonv1.Message) ([]byte, Compression) {
	body, err := decompressed(message.Body, message.Compression)
	if err != nil {
		return message.Body, message.Compression
	}
	return body, Uncompressed
}

var errBodyTooLarge = errors.New("ariane: a body becomes too large")

func decompressed(stored []byte, kind Compression) ([]byte, error) {
	switch kind {
	case Uncompressed:
		return stored, nil
	case LZ4:
		return readAll(lz4.NewReader(bytes.NewReader(stored)))
	case Zstandard:
		decoder, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		return decoder.DecodeAll(stored, nil)
	case Zlib:
		reader, err := zlib.NewReader(bytes.NewReader(stored))
		if err != nil {
			return nil, err
		}
		return readAll(reader)
	}
	return nil, fmt.Errorf("ariane: compression %v is not known", kind)
}

// zstdDecoder may be used by any number of goroutines at a time.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(bodyBytesMax), zstd.WithDecoderMaxWindow(bodyBytesMax))
})

func readAll(reader io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(reader, bodyBytesMax+1))
	if err == nil && len(body) > bodyBytesMax {
		err = errBodyTooLarge
	}
	return body, err
}
