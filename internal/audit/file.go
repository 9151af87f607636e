package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxLine is the most bytes of a line: an event is smaller, and one that is larger must still be named.
const maxLine = 4 * events.MaxEvent

// File audits JSON lines as inspan export writes them. Every byte of a line counts. An error means that the file could
// not be read, and nothing is known of it.
func File(ctx context.Context, cfg Config, r io.Reader) (Report, error) {
	a := New(cfg)
	err := Lines(r, func(line []byte) bool { return a.Event(ctx, kernel.Record{Bytes: line}) })
	if errors.Is(err, bufio.ErrTooLong) {
		a.wrong(Fault{Sequence: a.state.Sequence + 1, Why: fmt.Sprintf("has more than %d bytes, the limit of an event",
			maxLine)})
		err = nil
	}
	return a.End(), err
}

// Lines calls each with every line, without the newline and otherwise byte for byte, until it returns false. The bytes
// are good until it returns.
func Lines(r io.Reader, each func([]byte) bool) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxLine)
	sc.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for sc.Scan() {
		if !each(bytes.Clone(sc.Bytes())) {
			return nil
		}
	}
	return sc.Err()
}

// ReadAnchor reads an anchor as inspan export --anchor writes it.
func ReadAnchor(b []byte) (run.Anchor, error) {
	var a run.Anchor
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return a, fmt.Errorf("read the anchor: %w", err)
	}
	if a.Sequence == 0 || !events.ValidID(a.Run) {
		return a, errors.New("read the anchor: it names no run or no event")
	}
	return a, nil
}
