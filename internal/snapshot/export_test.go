package snapshot

import (
	"encoding/binary"

	"github.com/inspan/inspan/pkg/run"
)

// HeaderSize is the length of the header of a binary state.
const HeaderSize = headerSize

// Seal makes the digest of a binary state fit whatever the rest is.
func Seal(b []byte) []byte { return seal(b) }

// Pack makes a binary state of any document, as a program of that schema version would have written it.
func Pack(document []byte, schema uint32) []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	b[len(magic)] = formVersion
	binary.BigEndian.PutUint32(b[atSchema:], schema)
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(document)))
	return seal(squeezer().EncodeAll(document, b))
}

// EncodeJSON and DecodeJSON are the form FormJSON.
func EncodeJSON(s run.State) ([]byte, error) { return (&Store{}).encode(FormJSON, s) }

// DecodeJSON reads what EncodeJSON wrote.
func DecodeJSON(b []byte) (run.State, error) { return (&Store{}).decode(FormJSON, b) }
