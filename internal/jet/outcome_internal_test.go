package jet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/kernel"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	refusal := func(code jetstream.ErrorCode, words string) error {
		return fmt.Errorf("wrapped: %w", &jetstream.APIError{Code: 400, ErrorCode: code, Description: words})
	}
	for name, c := range map[string]struct {
		err  error
		head uint64
		want kernel.Outcome
		seq  uint64
	}{
		"a later event":                  {refusal(10071, "wrong last sequence: 9"), 8, kernel.Conflict, 9},
		"the same position":              {refusal(10071, "wrong last sequence: 8"), 8, kernel.Conflict, 8},
		"an earlier event":               {refusal(10071, "wrong last sequence: 7"), 8, kernel.Transient, 7},
		"no position in the words":       {refusal(10071, "wrong last sequence"), 8, kernel.Conflict, 0},
		"another append under way":       {refusal(10164, "wrong last sequence"), 8, kernel.Transient, 0},
		"the stream's bytes":             {refusal(10077, "maximum bytes exceeded"), 8, kernel.Full, 0},
		"the stream's messages":          {refusal(10077, "maximum messages exceeded"), 8, kernel.Full, 0},
		"the disk":                       {refusal(10077, "write /x: no space left on device"), 8, kernel.Full, 0},
		"a store that failed otherwise":  {refusal(10077, "file is closed"), 8, kernel.Unknown, 0},
		"the server's storage":           {refusal(10047, "insufficient storage resources available"), 8, kernel.Full, 0},
		"the account's":                  {refusal(10002, "resource limits exceeded for account"), 8, kernel.Full, 0},
		"too large for the stream":       {refusal(10054, "message size exceeds maximum allowed"), 8, kernel.TooLarge, 0},
		"too large for the connection":   {fmt.Errorf("x: %w", nats.ErrMaxPayload), 8, kernel.TooLarge, 0},
		"no permission":                  {fmt.Errorf("x: %w", ErrDenied), 8, kernel.Denied, 0},
		"no answer":                      {nats.ErrTimeout, 8, kernel.Unknown, 0},
		"no one there":                   {nats.ErrNoResponders, 8, kernel.Unknown, 0},
		"a code that no one knows":       {refusal(19999, "new"), 8, kernel.Unknown, 0},
		"no leader":                      {refusal(10008, "JetStream system temporarily unavailable"), 8, kernel.Unknown, 0},
		"an error that is not the API's": {errors.New("wrong last sequence: 9"), 8, kernel.Unknown, 0},
	} {
		t.Run("SAFE-4 "+name, func(t *testing.T) {
			t.Parallel()
			if got := outcome(c.err, c.head); got.Outcome != c.want || got.Seq != c.seq || got.Err == nil {
				t.Errorf("got %s at %d (%v), want %s at %d", got.Outcome, got.Seq, got.Err, c.want, c.seq)
			}
		})
	}
}

func TestDeniedPublish(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		`nats: permissions violation: Permissions Violation for Publish to "station.s.task"`:      "station.s.task",
		`nats: permissions violation: Permissions Violation for Subscription to "station.s.task"`: "",
		`Publish to "a\"b"`: `a"b`,
		`Publish to x`:      "",
		`Publish to "`:      "",
	} {
		if got, _, _ := deniedPublish(errors.New(words)); got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	got := redactURL("nats://anna:canary@h:4222, nats://token@h2,tls://h3:1")
	if want := "nats://%2A%2A%2A@h:4222,nats://%2A%2A%2A@h2,tls://h3:1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTornPages(t *testing.T) {
	t.Parallel()
	word := func(headers ...string) *nats.Msg {
		m := &nats.Msg{Header: nats.Header{}}
		for i := 0; i < len(headers); i += 2 {
			m.Header.Set(headers[i], headers[i+1])
		}
		return m
	}
	two := directPage{messages: make([]directMessage, 2)}
	for name, c := range map[string]struct {
		page    directPage
		m       *nats.Msg
		status  string
		last    uint64
		sound   bool
		pending uint64
	}{
		"EVT-1 the end of a whole page":           {two, word("Nats-Num-Pending", "3", "Nats-Last-Sequence", "7"), "204", 7, true, 3},
		"EVT-1 a page whose last message is lost": {two, word("Nats-Num-Pending", "3", "Nats-Last-Sequence", "8"), "204", 7, false, 0},
		"EVT-1 an end without numbers":            {two, word(), "204", 7, false, 0},
		"EVT-1 nothing there":                     {directPage{}, word(), "404", 0, true, 0},
		"EVT-1 nothing there, in the middle":      {two, word(), "404", 7, false, 0},
		"EVT-1 a refusal":                         {two, word("Description", "Bad Request"), "408", 7, false, 0},
		"EVT-1 no one there":                      {directPage{}, word(), "503", 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.page.end(c.m, c.status, c.last)
			if (err == nil) != c.sound || got.pending != c.pending {
				t.Errorf("got %d pending, %v", got.pending, err)
			}
		})
	}
}
