package e2b

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzOutput compares the short way with the long one.
func FuzzOutput(f *testing.F) {
	for _, text := range []string{
		`{"event":{"data":{"stdout":"aGVsbG8="}}}`, ` { "event" : {"data": {"stderr":""} } } `, `{"event":{"data":{"stdout":"aGVs\u0062G8="}}}`,
		`{"event":{"data":{"stdout":"aA==","stderr":"aA=="}}}`, `{"event":{"data":{"stdout":"aA=="}}}x`, `{"event":{"data":{"pty":"aA=="}}}`, `{"event":{"data":{"stdout":"!"}}}`, `{"event":{"start":{"pid":3}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		name, text, ok := output(frame)
		if !ok {
			return
		}
		var short, out, errs bytes.Buffer
		failed := (&chunk{to: &short}).pass(text)
		var e event
		e.Event.Data.Stdout.to, e.Event.Data.Stderr.to = &out, &errs
		if err := json.Unmarshal(frame, &e); (err == nil) != (failed == nil) {
			t.Fatalf("%q: the short way says %v, the long one %v", frame, failed, err)
		}
		long := out.String()
		if name == "stderr" {
			long = errs.String()
		}
		if failed == nil && (short.String() != long || out.Len()+errs.Len() != len(long)) {
			t.Errorf("%q: got %q, want %q", frame, short.String(), long)
		}
	})
}
