package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Errors of Replay.
var (
	// ErrReplayed means that a letter was said again before, and taken.
	ErrReplayed = errors.New("it was said again already")
	// ErrNotWhole means that the list does not have a message whole, so that it cannot be said again.
	ErrNotWhole = errors.New("the list has only a part of it")
)

// Replay says a refused message again, where it came from, and returns once the station has taken it. Refused again, it
// is another letter and a *RefusedError. It may be called again: a task without an id gets one that is made from the
// letter, so that it never starts two runs; what steers a run or answers a gate counts once by its nature.
func (c *Client) Replay(ctx context.Context, no uint64) (Letter, error) {
	all, last, err := c.letters(ctx)
	if err != nil {
		return Letter{}, err
	}
	var found *Letter
	for i := range all {
		if all[i].Seq == no {
			found = &all[i]
		}
	}
	if found == nil {
		return Letter{}, notFound("dead letter", fmt.Sprint(no))
	}
	body, err := c.again(*found)
	if err != nil {
		return *found, err
	}
	token := kernel.ReplayToken(fmt.Sprint(no))
	answers, err := c.refusals(token)
	if err != nil {
		return *found, err
	}
	defer answers.stop()
	answers.after = last
	header := map[string]string{}
	maps.Copy(header, found.Header)
	header[tokenHeader], header[kernel.ReplayHeader] = token, fmt.Sprint(no)
	if _, err := c.st.PublishAt(ctx, found.Subject, body, header); err != nil {
		return *found, fmt.Errorf("%w: may this user publish there?", err)
	}
	return *found, c.taken(ctx, *found, answers)
}

// again returns what to say, or why it cannot be said.
func (c *Client) again(l Letter) ([]byte, error) {
	switch {
	case l.Replayed != nil:
		return nil, fmt.Errorf("dead letter %d: %w, at %s", l.Seq, ErrReplayed, l.Replayed.Format(time.RFC3339))
	case len(l.Data) != l.DataBytes || strings.ContainsRune(l.Data, '\uFFFD'):
		return nil, fmt.Errorf("dead letter %d of %d bytes: %w: send the message again from where it came", l.Seq, l.DataBytes, ErrNotWhole)
	}
	if p, ok := events.ParseRunSubject(l.Subject); ok && p.Rest[0] == "evt" {
		return nil, fmt.Errorf("dead letter %d is an event of run %s, which no person says: look with inspan audit %s", l.Seq, p.Run, p.Run)
	}
	if l.Header["ce-id"] == "" && strings.HasPrefix(l.Subject, events.TaskSubject(c.st.Name())) {
		return named([]byte(l.Data), fmt.Sprintf("replay-%d-%d", l.Seq, l.Time.UnixNano())), nil
	}
	return []byte(l.Data), nil
}

// named gives a task an id where it has none; what is no task stays as it is, and is refused again.
func named(body []byte, id string) []byte {
	var task map[string]json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(body))
	if dec.Decode(&task) != nil || dec.More() || len(task) == 0 || task["id"] != nil || task["specversion"] != nil {
		return body
	}
	task["id"], _ = json.Marshal(id) // a plain text
	b, err := json.Marshal(task)
	if err != nil {
		return body
	}
	return b
}

// taken waits for the station's word about a message that was said again.
func (c *Client) taken(ctx context.Context, l Letter, answers *letters) error {
	verdict := func(d kernel.DeadLetter) error {
		if d.Code == kernel.CodeReplayed {
			return nil
		}
		return refused(d)
	}
	for wait := lookFirst; ; wait = min(2*wait, quietMost) {
		select {
		case d := <-answers.come:
			return verdict(d)
		case <-time.After(wait):
			if d, ok := answers.look(ctx); ok {
				return verdict(d)
			}
		case <-ctx.Done():
			return &SilentError{Station: c.st.Name(), Run: or(l.Run, fmt.Sprintf("of letter %d", l.Seq)), Err: context.Cause(ctx)}
		}
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
