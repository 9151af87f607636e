package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// live publishes what is no event, on the subject of a run. It never waits: without a connection the message is
// dropped.
type live struct {
	c       *Conn
	station string
	subject func(station, run string) string
}

var _ kernel.Live = live{}

// Publish implements kernel.Live.
func (l live) Publish(run string, data []byte) {
	if !events.ValidID(run) {
		return
	}
	_ = l.c.nc.Publish(l.subject(l.station, run), data) // no one may rely on it
}

// refusals is the dead-letter list.
type refusals struct {
	c       *Conn
	station string
}

var _ kernel.Refusals = refusals{}

// Refuse implements kernel.Refusals.
func (r refusals) Refuse(ctx context.Context, by events.Service, d kernel.DeadLetter) error {
	b, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	if _, err := r.c.publish(ctx, &nats.Msg{Subject: events.DeadSubject(r.station, by), Data: b},
		topology.Dead(r.station)); err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// clocks is how far apart the clocks of the servers may be: each stamps what is stored in the streams that it leads.
const clocks = time.Minute

// Refused implements kernel.Refusals. The leader names the role's last letter, so that a replica which is behind
// cannot hide one.
func (r refusals) Refused(ctx context.Context, by events.Service, m kernel.Message) (bool, error) {
	stream, subject, since := topology.Dead(r.station), events.DeadSubject(r.station, by), m.Time().Add(-clocks)
	var last struct {
		Message struct {
			Seq  uint64    `json:"seq"`
			Time time.Time `json:"time"`
		} `json:"message"`
	}
	err := r.c.api(ctx, "STREAM.MSG.GET."+stream, map[string]string{"last_by_subj": subject}, &last)
	if code(err) == codeNoMessage || err == nil && last.Message.Time.Before(since) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("last dead letter of %s: %w", by, err)
	}
	from := directRequest{Since: &since, NextFor: subject}
	for at := uint64(0); at < last.Message.Seq; {
		letters, _, err := lettersOf(ctx, r.c, r.station, from)
		if err != nil {
			return false, fmt.Errorf("dead letters of %s after %d: %w", by, at, err)
		}
		if len(letters) == 0 {
			return false, fmt.Errorf("dead letters of %s: the replica has none after %d, the last is %d: it is behind",
				by, at, last.Message.Seq)
		}
		if slices.ContainsFunc(letters, func(l Refused) bool { return l.Letter.Of(m) }) {
			return true, nil
		}
		at = letters[len(letters)-1].Seq
		from.Since, from.Seq = nil, at+1
	}
	return false, nil
}

// Refused is a dead letter as stored.
type Refused struct {
	// Seq is its position in the list, By the service that refused it.
	Seq    uint64
	By     events.Service
	Letter kernel.DeadLetter
}

// Dead returns a page of the dead-letter list after a position, oldest first; more says that there are others behind.
func (s *Station) Dead(ctx context.Context, after uint64) (letters []Refused, more bool, err error) {
	letters, more, err = lettersOf(ctx, s.c, s.name, directRequest{Seq: after + 1, NextFor: deadPrefix(s.name) + "*"})
	if err != nil {
		return nil, false, fmt.Errorf("read dead letters after %d: %w", after, err)
	}
	return letters, more, nil
}

func deadPrefix(station string) string { return "station." + station + ".dead." }

// lettersOf reads a page of a dead-letter list; more says that the replica has others behind.
func lettersOf(ctx context.Context, c *Conn, station string, from directRequest) (all []Refused, more bool, err error) {
	from.Batch, from.MaxBytes = pageEvents, pageBytes
	page, err := c.direct(ctx, topology.Dead(station), from)
	if err != nil {
		return nil, false, err
	}
	for _, m := range page.messages {
		r := Refused{Seq: m.seq, By: events.Service(strings.TrimPrefix(stamped(m.Msg, "Nats-Subject"), deadPrefix(station)))}
		if err := json.Unmarshal(m.Data, &r.Letter); err != nil {
			return nil, false, fmt.Errorf("dead letter %d: %w", m.seq, err)
		}
		all = append(all, r)
	}
	return all, page.pending > 0 && len(all) > 0, nil
}
