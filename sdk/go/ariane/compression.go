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
	// compressBytesMin is the size of a body from which it is compressed.
	compressBytesMin = 4096
	// bodyBytesMax bounds what a body becomes: a small one may claim to be huge.
	bodyBytesMax = 32 << 20
	// answerBytesMax bounds what the compressed bodies of one answer of a broker become together.
	answerBytesMax = 512 << 20
)

var compressors = map[Compression]func([]byte) ([]byte, error){
	LZ4: func(body []byte) ([]byte, error) {
		var out bytes.Buffer
		writer := lz4.NewWriter(&out)
		if err := writer.Apply(lz4.ChecksumOption(false)); err != nil {
			return nil, err
		}
		return written(&out, writer, body)
	},
	Zstandard: func(body []byte) ([]byte, error) {
		encoder, err := zstdEncoder()
		if err != nil {
			return nil, err
		}
		return encoder.EncodeAll(body, nil), nil
	},
	Zlib: func(body []byte) ([]byte, error) {
		var out bytes.Buffer
		return written(&out, zlib.NewWriter(&out), body)
	},
}

func written(out *bytes.Buffer, writer io.WriteCloser, body []byte) ([]byte, error) {
	_, err := writer.Write(body)
	err = errors.Join(err, writer.Close())
	return out.Bytes(), err
}

// packed is a body as it is sent, compressed if it is large and becomes smaller, and how it is then.
func packed(body []byte, kind Compression) ([]byte, Compression) {
	if kind == Uncompressed || len(body) < compressBytesMin {
		return body, Uncompressed
	}
	smaller, err := compressors[kind](body)
	if err != nil || len(smaller) >= len(body) {
		return body, Uncompressed
	}
	return smaller, kind
}

// unpacked is a body as it was before its producer compressed it; as stored, with how it is
// compressed, where it is damaged or becomes larger than there is room, of which it takes its size.
func unpacked(stored []byte, kind Compression, room *int) ([]byte, Compression) {
	if kind == Uncompressed {
		return stored, kind
	}
	body, err := decompressed(stored, kind, min(*room, bodyBytesMax))
	if err != nil {
		return stored, kind
	}
	*room -= len(body)
	return body, Uncompressed
}

var errBodyTooLarge = errors.New("ariane: a body becomes too large")

func decompressed(stored []byte, kind Compression, bytesMax int) ([]byte, error) {
	switch kind {
	case LZ4:
		return readAll(lz4.NewReader(bytes.NewReader(stored)), bytesMax)
	case Zstandard:
		decoder, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		body, err := decoder.DecodeAll(stored, nil)
		if err == nil && len(body) > bytesMax { // Its own bound is the same for all bodies.
			err = errBodyTooLarge
		}
		return body, err
	case Zlib:
		reader, err := zlib.NewReader(bytes.NewReader(stored))
		if err != nil {
			return nil, err
		}
		return readAll(reader, bytesMax)
	}
	return nil, fmt.Errorf("ariane: compression %v is not known", kind)
}

// Any number of goroutines may use these at a time.
var (
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil) })
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(bodyBytesMax), zstd.WithDecoderMaxWindow(bodyBytesMax))
	})
)

func readAll(reader io.Reader, bytesMax int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(reader, int64(bytesMax)+1))
	if err == nil && len(body) > bytesMax {
		err = errBodyTooLarge
	}
	return body, err
}
