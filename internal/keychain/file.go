package keychain

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/pkg/events"
)

// File is what a file of a key of anchors has: the private key in the first line, as it is in a setting, and below it
// the links that brought this key, one JSON object a line, until the log has them.
type File struct {
	Private ed25519.PrivateKey
	Links   []events.KeyLink
}

// MaxFile bounds such a file.
const MaxFile = 1 << 20

// LockOf is the file that is locked while a file of a key is changed.
func LockOf(path string) string { return path + ".lock" }

// ErrFile means that a text is no file of a key.
var ErrFile = errors.New("it is damaged")

// ParseFile reads a file of a key. What it returns is whole: the last link brought the key.
func ParseFile(text string) (File, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	private, err := audit.ParsePrivate(lines[0])
	if err != nil {
		return File{}, fmt.Errorf("%w: line 1: %w", ErrFile, err)
	}
	f := File{Private: private}
	for i, line := range lines[1:] {
		var l events.KeyLink
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			return File{}, fmt.Errorf("%w: line %d: %w", ErrFile, i+2, err)
		}
		f.Links = append(f.Links, l)
	}
	if n := len(f.Links); n > 0 && f.Links[n-1].New != audit.FormatPublic(private) {
		return File{}, fmt.Errorf("%w: its last link brings key %s, and its key is %s", ErrFile, ID(f.Links[n-1].New),
			ID(audit.FormatPublic(private)))
	}
	return f, nil
}

// Format writes what ParseFile reads.
func (f File) Format() []byte {
	var b strings.Builder
	b.WriteString(hex.EncodeToString(f.Private.Seed()) + "\n")
	for _, l := range f.Links {
		line, err := json.Marshal(l)
		if err != nil {
			panic(err) // it is made of texts and a number
		}
		b.Write(line)
		b.WriteString("\n")
	}
	return []byte(b.String())
}

// Public is the public half of the key.
func (f File) Public() string { return audit.FormatPublic(f.Private) }
