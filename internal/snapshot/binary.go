package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/inspan/inspan/pkg/run"
)

// Binary writes and reads states in a compact form (EVT-5): a header and the state's JSON, compressed with zstd. What
// JSON keeps it keeps, and the migrations of the Codec hold for it as well. Equal states give equal bytes.
//
// The header is, in this order and in network byte order: "ISNP", the version of the form (1 byte), the schema version
// of the state (4), the length of its JSON (4), and the SHA-256 of these 13 bytes and of everything behind the header
// (32).
type Binary struct{ Codec run.Codec }

// The header.
const (
	magic       = "ISNP"
	formVersion = 1
	atSchema    = len(magic) + 1
	atLength    = atSchema + 4
	atDigest    = atLength + 4
	headerSize  = atDigest + sha256.Size
)

// FormError is returned for a binary state in a form that this program does not know.
type FormError struct{ Found, Supported byte }

func (e *FormError) Error() string {
	return fmt.Sprintf("binary state has format %d, this program reads format %d: upgrade the program or rebuild the state from the log", e.Found, e.Supported)
}

// Encode writes a state of at most 256 MiB of JSON.
func (c Binary) Encode(s run.State) ([]byte, error) {
	plain, err := c.Codec.Encode(s)
	if err != nil {
		return nil, err
	}
	if len(plain) > maxState {
		return nil, fmt.Errorf("state of %s has %d bytes, the limit is %d", s.HarnessID, len(plain), maxState)
	}
	if s.SchemaVersion < 0 || s.SchemaVersion > math.MaxInt32 {
		return nil, fmt.Errorf("state of %s has schema version %d, which the binary format does not support", s.HarnessID,
			s.SchemaVersion)
	}
	b := make([]byte, headerSize, headerSize+len(plain)/3)
	copy(b, magic)
	b[len(magic)] = formVersion
	binary.BigEndian.PutUint32(b[atSchema:], uint32(s.SchemaVersion))
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(plain)))
	return seal(squeezer().EncodeAll(plain, b)), nil
}

// seal fills in the digest.
func seal(b []byte) []byte {
	copy(b[atDigest:], digest(b))
	return b
}

func digest(b []byte) []byte {
	h := sha256.New()
	h.Write(b[:atDigest])
	h.Write(b[headerSize:])
	return h.Sum(nil)
}

// Decode reads a state. It returns run.ErrDamagedState (wrapped) for bytes that are not whole and sound, a *FormError
// or a *run.VersionError for a version that it does not know, and then the zero State.
func (c Binary) Decode(b []byte) (run.State, error) {
	switch {
	case len(b) < headerSize || string(b[:len(magic)]) != magic:
		return run.State{}, fmt.Errorf("%w: %d bytes that do not begin with the header of a binary state",
			run.ErrDamagedState, len(b))
	case b[len(magic)] != formVersion:
		return run.State{}, &FormError{Found: b[len(magic)], Supported: formVersion}
	case !bytes.Equal(b[atDigest:headerSize], digest(b)):
		return run.State{}, fmt.Errorf("%w: the digest in the header is not that of its %d bytes", run.ErrDamagedState,
			len(b))
	}
	length := binary.BigEndian.Uint32(b[atLength:])
	if length > maxState {
		return run.State{}, fmt.Errorf("%w: %d bytes of JSON, the limit is %d", run.ErrDamagedState, length, maxState)
	}
	if schema := binary.BigEndian.Uint32(b[atSchema:]); schema > run.SchemaVersion {
		return run.State{}, &run.VersionError{Found: int(schema), Supported: run.SchemaVersion}
	}
	// No more than the capacity is ever written, so a small frame cannot fill the memory.
	plain, err := opener().DecodeAll(b[headerSize:], make([]byte, 0, length))
	if err != nil {
		return run.State{}, fmt.Errorf("%w: decompress: %w", run.ErrDamagedState, err)
	}
	if len(plain) != int(length) {
		return run.State{}, fmt.Errorf("%w: %d bytes of JSON, the header states %d", run.ErrDamagedState, len(plain), length)
	}
	return c.Codec.Decode(plain)
}

// squeezer and opener are made once, because they are large; both are safe for concurrent use.
var (
	squeezer = sync.OnceValue(func() *zstd.Encoder {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(fmt.Sprintf("options of zstd: %v", err))
		}
		return z
	})
	opener = sync.OnceValue(func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(maxState))
		if err != nil {
			panic(fmt.Sprintf("options of zstd: %v", err))
		}
		return z
	})
)
