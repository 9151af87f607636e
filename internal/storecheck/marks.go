package storecheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/disk"
)

// Marks is what a station knows of its streams outside of their files. It may be behind what is stored and is never
// ahead of it: every figure was read from the server after the server had written it to disk.
type Marks struct {
	Version int       `json:"version"`
	Station string    `json:"station"`
	At      time.Time `json:"at"`
	// Clean is true where the station ended by itself, and nothing was written after the marks.
	Clean bool `json:"clean"`
	// Streams by the Key of their account and name: stations that share a store have streams of the same names.
	Streams map[string]Stream `json:"streams"`
	// Files by their path in the store. Spare ones held nothing when the station ended.
	Files map[string]File `json:"files"`
	Spare []string        `json:"spare,omitempty"`
}

// Stream is how far a stream had come.
type Stream struct {
	Created  time.Time `json:"created"`
	First    uint64    `json:"first"`
	Last     uint64    `json:"last"`
	Messages uint64    `json:"messages"`
	// Deleted are the positions that are empty.
	Deleted uint64 `json:"deleted,omitempty"`
	// Floors are the positions up to which each consumer had acknowledged everything.
	Floors map[string]uint64 `json:"floors,omitempty"`
}

// File is what the beginning of a file was.
type File struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Changed is when the file was last written to, in nanoseconds: one that was not need not be read again.
	Changed int64 `json:"changed,omitempty"`
}

// same reports whether two files have the same bytes.
func (f File) same(g File) bool { return f.Size == g.Size && f.SHA256 == g.SHA256 }

// Key names a stream of an account.
func Key(account, stream string) string { return account + "/" + stream }

// NameOf is the name of the stream in a Key.
func NameOf(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return name
}

// FileOf describes bytes.
func FileOf(b []byte) File {
	sum := sha256.Sum256(b)
	return File{Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// buffers are for reading: a station reads its hundred files at each start and end.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// FileFrom describes what is read to the end.
func FileFrom(r io.Reader) (File, error) {
	h := sha256.New()
	b := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(b)
	n, err := io.CopyBuffer(h, struct{ io.Reader }{r}, b[:]) // a file itself would make a buffer of its own
	return File{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// marksVersion is that of the form in the file.
const marksVersion = 2

// The marks are kept twice, so that damage to one copy costs nothing.
var marksFiles = []string{"marks.json", "marks-copy.json"}

// ErrMarks means that neither copy of the marks can be read.
var ErrMarks = errors.New("the marks of the store are damaged")

// Load reads the marks of a store. Both results are nil where there are none: the store is new, or an earlier program
// made it. damaged is the copy that could not be read.
func Load(store string) (m *Marks, damaged []string, err error) {
	found := 0
	for _, name := range marksFiles {
		b, err := os.ReadFile(filepath.Join(store, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the marks of the store: %w", err)
		}
		found++
		one, ok := decode(b)
		if !ok {
			damaged = append(damaged, name)
			continue
		}
		if m == nil || one.At.After(m.At) {
			m = one
		}
	}
	if found > 0 && m == nil {
		return nil, damaged, ErrMarks
	}
	return m, damaged, nil
}

// decode checks the checksum behind the text.
func decode(b []byte) (*Marks, bool) {
	text, sum, ok := bytes.Cut(b, []byte("\n"))
	if !ok || string(bytes.TrimSpace(sum)) != FileOf(text).SHA256 {
		return nil, false
	}
	var m Marks
	if err := json.Unmarshal(text, &m); err != nil || m.Version != marksVersion {
		return nil, false
	}
	return &m, true
}

// Save writes both copies, each whole or not at all.
func (m Marks) Save(store string) error {
	m.Version = marksVersion
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the marks: %w", err)
	}
	b := append(append(bytes.Clone(text), '\n'), FileOf(text).SHA256+"\n"...)
	for _, name := range marksFiles {
		if err := disk.Replace(filepath.Join(store, name), b, 0o600); err != nil {
			return fmt.Errorf("write the marks of the store: %w", err)
		}
	}
	return nil
}

// Same reports whether two marks say the same.
func (m Marks) Same(n Marks) bool {
	if m.Clean != n.Clean || len(m.Streams) != len(n.Streams) || !maps.Equal(m.Files, n.Files) {
		return false
	}
	for name, s := range m.Streams {
		t, ok := n.Streams[name]
		if !ok || s.First != t.First || s.Last != t.Last || s.Messages != t.Messages || s.Deleted != t.Deleted ||
			!maps.Equal(s.Floors, t.Floors) {
			return false
		}
	}
	return true
}

// Forget removes the marks, for a store whose streams were taken away.
func Forget(store string) error {
	for _, name := range marksFiles {
		if err := os.Remove(filepath.Join(store, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the marks of the store: %w", err)
		}
	}
	return nil
}

// Lacks says what a stream lacks that it had by its mark. Nothing may ever be removed from a log: there it also says
// which positions are empty. views is the stream of the views, empty for ViewsStream.
func (s Stream) Lacks(name, views string, now Stream) (found []Finding) {
	if now.Last < s.Last {
		found = append(found, Finding{Outcome: costs(name, views), Stream: name, From: now.Last + 1, To: s.Last,
			What: fmt.Sprintf("it ends at sequence %d and had reached %d: %d messages are lost", now.Last, s.Last,
				s.Last-now.Last)})
	}
	if !strings.HasPrefix(name, LogPrefix) || now.Last == 0 {
		return found
	}
	if first := max(s.First, 1); now.First > first {
		found = append(found, Finding{Outcome: Lost, Stream: name, From: first, To: now.First - 1,
			What: fmt.Sprintf("it begins at sequence %d and began at %d", now.First, first)})
	}
	if now.Deleted > s.Deleted {
		found = append(found, Finding{Outcome: Lost, Stream: name,
			What: fmt.Sprintf("%d sequences are empty, %d were known", now.Deleted, s.Deleted)})
	}
	return found
}
