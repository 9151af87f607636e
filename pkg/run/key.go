package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// maxCanonical is the largest input, in bytes, that is compared by its meaning; a larger one is compared byte by byte.
const maxCanonical = 8 << 10

// KeyOf is the same for turns that ask for the same calls, in any order: 16 hex digits of a hash over tools and inputs.
// Inputs are the same where they mean the same JSON. Without calls it is empty.
func KeyOf(calls []events.RequestedCall) string {
	if len(calls) == 0 {
		return ""
	}
	each := make([]string, len(calls))
	for i, c := range calls {
		h := sha256.New()
		h.Write([]byte(c.Tool + "\x00"))
		if c.InputRef != nil {
			h.Write([]byte("ref\x00" + c.InputRef.SHA256))
		} else {
			h.Write(canonical(c.Input))
		}
		each[i] = string(h.Sum(nil))
	}
	slices.Sort(each)
	sum := sha256.New()
	for _, e := range slices.Compact(each) {
		sum.Write([]byte(e))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// canonical writes JSON in one form: keys in order, no space, numbers as they stand. What is no JSON stays as it is.
func canonical(input json.RawMessage) []byte {
	if len(input) > maxCanonical {
		return input
	}
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return input
	}
	b, err := json.Marshal(v)
	if err != nil {
		return input
	}
	return b
}
