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

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// DeadLetters are what the station refused.
type DeadLetters struct{ c *Client }

// DeadLetters returns the list of what the station refused.
func (c *Client) DeadLetters() DeadLetters { return DeadLetters{c} }

// Letter is an entry of the dead-letter list: input that the station refused.
type Letter struct {
	// Seq is its number in the list, By the role that refused it.
	Seq uint64         `json:"seq"`
	By  events.Service `json:"by"`
	// Subject it came on, and when.
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	Run     string    `json:"runid,omitempty"`
	// Code is stable for programs, Reason and Hint are for people.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
	// Data is the message as it came, shortened to 8 KiB; DataBytes its whole length.
	Data      string `json:"data"`
	DataBytes int    `json:"data_bytes"`
	Token     string `json:"token,omitempty"`
	// Header tells how the message is to be read.
	Header map[string]string `json:"header,omitempty"`
	// Replayed is when the letter was said again and taken; nil where it was not.
	Replayed *time.Time `json:"replayed,omitempty"`
}

// List lists what the station refused, the oldest first. The list keeps a week.
func (dl DeadLetters) List(ctx context.Context) ([]Letter, error) {
	all, _, err := dl.letters(ctx)
	return all, err
}

// letters reads the list and the number of its last entry, which may be no letter.
func (dl DeadLetters) letters(ctx context.Context) (all []Letter, last uint64, err error) {
	all = []Letter{}
	again := map[string]time.Time{}
	for more := true; more; {
		var page []jet.Refused
		if page, more, err = dl.c.st.Dead(ctx, last); err != nil {
			return nil, 0, fmt.Errorf("read the dead-letter list: %w", err)
		}
		for _, r := range page {
			d := r.Letter
			if last = r.Seq; d.Code == kernel.CodeReplayed {
				again[d.Token] = d.Time
				continue
			}
			all = append(all, Letter{Seq: r.Seq, By: r.By, Subject: d.Subject, Time: d.Time, Run: d.Run, Code: d.Code,
				Reason: d.Reason,
				Hint:   d.Hint, Data: d.Data, DataBytes: d.DataBytes, Token: d.Token, Header: d.Header})
		}
	}
	for i := range all {
		if at, ok := again[kernel.ReplayToken(fmt.Sprint(all[i].Seq))]; ok {
			all[i].Replayed = &at
		}
	}
	return all, last, nil
}

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
func (dl DeadLetters) Replay(ctx context.Context, no uint64) (Letter, error) {
	all, last, err := dl.letters(ctx)
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
	body, err := dl.again(*found)
	if err != nil {
		return *found, err
	}
	token := kernel.ReplayToken(fmt.Sprint(no))
	answers, err := publisher{dl.c}.refusals(token)
	if err != nil {
		return *found, err
	}
	defer answers.stop()
	answers.after = last
	header := map[string]string{}
	maps.Copy(header, found.Header)
	header[tokenHeader], header[kernel.ReplayHeader] = token, fmt.Sprint(no)
	if _, err := dl.c.st.PublishAt(ctx, found.Subject, body, header); err != nil {
		return *found, fmt.Errorf("%w: may this user publish there?", err)
	}
	return *found, dl.taken(ctx, *found, answers)
}

// again returns what to say, or why it cannot be said.
func (dl DeadLetters) again(l Letter) ([]byte, error) {
	switch {
	case l.Replayed != nil:
		return nil, fmt.Errorf("dead letter %d: %w, at %s", l.Seq, ErrReplayed, l.Replayed.Format(time.RFC3339))
	case len(l.Data) != l.DataBytes || strings.ContainsRune(l.Data, '\uFFFD'):
		return nil, fmt.Errorf("dead letter %d of %d bytes: %w: send the message again from where it came", l.Seq,
			l.DataBytes, ErrNotWhole)
	}
	if !strings.HasPrefix(l.Subject, "station.") {
		return nil, fmt.Errorf("dead letter %d is of %s, which is no subject of the station: send it again from where it came",
			l.Seq, l.Subject)
	}
	if p, ok := events.ParseRunSubject(l.Subject); ok && p.Rest[0] == "evt" {
		return nil, fmt.Errorf("dead letter %d is an event of run %s, which only services publish: look with inspan audit %s",
			l.Seq, p.Run, p.Run)
	}
	if l.Header["ce-id"] == "" && strings.HasPrefix(l.Subject, events.TaskSubject(dl.c.st.Name())) {
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
func (dl DeadLetters) taken(ctx context.Context, l Letter, answers *letters) error {
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
			return &SilentError{Station: dl.c.st.Name(), Run: or(l.Run, fmt.Sprintf("of letter %d", l.Seq)),
				Err: context.Cause(ctx)}
		}
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
