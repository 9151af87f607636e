package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// The headers that make an append a compare-and-set.
const (
	headerExpect        = "Nats-Expected-Last-Subject-Sequence"
	headerExpectSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerContentType   = "Content-Type"
	contentType         = "application/cloudevents+json"
)

// journal is the log of a station, for the aggregates of one name. Where appends are grouped, all journals of a
// connection on one stream share a group.
type journal struct {
	c         *Conn
	station   string
	stream    string
	aggregate string
}

// Append implements kernel.Journal. The guard is always the same string, over all events of the aggregate: on a
// replicated stream, another string or a plain publish beside it would break the guard of both.
func (j journal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if err := e.Of(j.aggregate); err != nil {
		return kernel.Ack{Outcome: kernel.Denied, Err: err}
	}
	e.Aggregate = j.aggregate
	if len(e.Bytes) > events.MaxEvent {
		return kernel.Ack{Outcome: kernel.TooLarge, Err: fmt.Errorf("%d bytes, the limit is %d", len(e.Bytes),
			events.MaxEvent)}
	}
	if j.c.grouping.Load() != int32(GroupNone) {
		return j.c.group(j).append(ctx, e)
	}
	return j.single(ctx, e)
}

// message is an entry with its guard.
func (j journal) message(e kernel.Entry) *nats.Msg {
	m := &nats.Msg{Subject: events.EventSubject(j.station, e.Aggregate, e.ID, e.Kind), Data: e.Bytes, Header: nats.Header{
		headerExpect:        {strconv.FormatUint(e.Head, 10)},
		headerExpectSubject: {events.AggregateEvents(j.station, e.Aggregate, e.ID)},
		headerContentType:   {contentType},
	}}
	if e.Whole > 0 {
		m.Header.Set(kernel.WholeHeader, strconv.FormatUint(e.Whole, 10))
	}
	return m
}

// single makes one append.
func (j journal) single(ctx context.Context, e kernel.Entry) kernel.Ack {
	seq, err := j.c.publish(ctx, j.message(e), j.stream)
	if err == nil {
		return kernel.Ack{Outcome: kernel.Stored, Seq: seq}
	}
	ack := outcome(err, e.Head)
	if code(err) == codeWrongLast && ack.Outcome == kernel.Transient {
		return j.behind(ctx, e, ack)
	}
	return ack
}

// behind judges a refusal that names a position below ours. Where the leader has ours by now it has passed; where it
// has not, either it is a new leader that still applies what was acknowledged, or our head never was in the log.
// Both look the same, so it stays a conflict that no one won, and whoever tries again learns more.
func (j journal) behind(ctx context.Context, e kernel.Entry, ack kernel.Ack) kernel.Ack {
	j.aggregate = e.Aggregate // a group has one journal for all
	last, ok, err := j.Last(ctx, e.ID)
	switch {
	case err != nil:
		ack.Outcome = kernel.Transient
	case ok && last.Seq >= e.Head:
		ack.Outcome = kernel.Transient
	default:
		ack.Outcome, ack.Seq = kernel.Conflict, last.Seq
	}
	return ack
}

// outcome tells what an error means for an append at a head. Whatever is not known to be a refusal is Unknown.
func outcome(err error, head uint64) kernel.Ack {
	ack := kernel.Ack{Outcome: kernel.Unknown, Err: err}
	switch {
	case errors.Is(err, ErrDenied):
		ack.Outcome = kernel.Denied
		return ack
	case errors.Is(err, nats.ErrMaxPayload):
		ack.Outcome = kernel.TooLarge
		return ack
	}
	refused, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return ack
	}
	switch refused.ErrorCode {
	case codeWrongLast:
		ack.Outcome, ack.Seq = wrongLast(refused.Description, head)
	case codeWrongLastNoSeq:
		ack.Outcome = kernel.Transient
	case codeTooLarge:
		ack.Outcome = kernel.TooLarge
	case codeNoResources, codeNoStorage, codeNoMemory, codeAccountBytes, codeStreamSealed:
		ack.Outcome = kernel.Full
	case codeStoreFailed:
		if isFull(refused.Description) {
			ack.Outcome = kernel.Full
		}
	}
	return ack
}

// wrongLast reads the position in "wrong last sequence: N". A position below ours comes from a leader that has not
// applied yet what was acknowledged: it passes by itself.
func wrongLast(description string, head uint64) (kernel.Outcome, uint64) {
	_, number, _ := strings.Cut(description, ": ")
	last, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
	if err != nil {
		return kernel.Conflict, 0
	}
	if last < head {
		return kernel.Transient, last
	}
	return kernel.Conflict, last
}

// isFull reads the reason of a store that failed: the server has one code for all of them and tells them apart in
// words only.
func isFull(description string) bool {
	for _, words := range []string{"maximum bytes exceeded", "maximum messages exceeded", "resource limits exceeded",
		"no space left"} {
		if strings.Contains(description, words) {
			return true
		}
	}
	return false
}

// Last implements kernel.Journal.
func (j journal) Last(ctx context.Context, id string) (kernel.Record, bool, error) {
	if err := events.CheckID(j.aggregate, id); err != nil {
		return kernel.Record{}, false, err
	}
	m, err := j.c.lastFromLeader(ctx, j.stream, events.AggregateEvents(j.station, j.aggregate, id))
	if errors.Is(err, kernel.ErrNotFound) {
		return kernel.Record{}, false, nil
	}
	if err != nil {
		return kernel.Record{}, false, fmt.Errorf("last event of %s %s: %w", j.aggregate, id, err)
	}
	return kernel.Record{Seq: m.Seq, Kind: kindOf(m.Subject), Bytes: m.Data}, true, nil
}

// kindOf returns the kind that a subject of the log is for.
func kindOf(subject string) events.Kind {
	_, kind, _ := strings.Cut(subject, ".evt.")
	return events.Kind(kind)
}

// pageFacts and pageBytes bound what one Read returns; the server stops at the first event that reaches the bytes.
const (
	pageEvents = 256
	pageBytes  = 4 << 20
)

// Read implements kernel.Journal. A server finds the next event of an aggregate by looking through all that lies
// between, which takes long where many are under way, but the last event of each kind at once, and any event by its
// position. So the events are followed back from the last one where they lie far apart.
func (j journal) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	if err := events.CheckID(j.aggregate, id); err != nil {
		return nil, false, err
	}
	if evs, whole := j.back(ctx, id, after); whole {
		return evs, false, nil
	}
	page, err := j.c.direct(ctx, j.stream, directRequest{Seq: after + 1, NextFor: events.AggregateEvents(j.station,
		j.aggregate, id), Batch: pageEvents, MaxBytes: pageBytes})
	if err != nil {
		return nil, false, fmt.Errorf("read %s %s after %d: %w", j.aggregate, id, after, err)
	}
	evs := make([]kernel.Record, len(page.messages))
	for i, m := range page.messages {
		evs[i] = recordOf(m)
	}
	return evs, page.pending > 0 && len(evs) > 0, nil
}

func recordOf(m directMessage) kernel.Record {
	return kernel.Record{Seq: m.seq, Kind: kindOf(stamped(m.Msg, "Nats-Subject")), Bytes: m.Data}
}

// apart is how many positions a server looks through in the time that it takes to ask for one by its number: where the
// events of an aggregate lie closer together, they are read on from the first.
const apart = 256

// back reads the events of an aggregate after a position from the last one back: each was appended behind the one
// before it, as the guard of its append says. They begin with the last event of each kind, and what lies between is
// asked for one by one. whole is false where that does not pay, and where anything is not as it should be.
func (j journal) back(ctx context.Context, id string, after uint64) (evs []kernel.Record, whole bool) {
	all := events.AggregateEvents(j.station, j.aggregate, id)
	page, err := j.c.direct(ctx, j.stream, directRequest{Seq: after + 1, LastOf: []string{all}, Batch: pageEvents,
		MaxBytes: pageBytes})
	if err != nil || page.pending > 0 {
		return nil, false
	}
	if len(page.messages) == 0 {
		return nil, true
	}
	lasts := page.messages
	newest, size := lasts[len(lasts)-1].seq, 0
	for at := newest; at > after; {
		var m directMessage
		if n := len(lasts); n > 0 && lasts[n-1].seq == at {
			m, lasts = lasts[n-1], lasts[:n-1]
		} else if m, whole = j.at(ctx, at, all); !whole {
			return nil, false
		}
		behind, err := strconv.ParseUint(m.Header.Get(headerExpect), 10, 64) // the first, which the server looked at
		if evs, size = append(evs, recordOf(m)), size+len(m.Data); err != nil || behind >= at || size > pageBytes ||
			len(evs) > pageEvents {
			return nil, false
		}
		known := len(lasts) > 0 && lasts[len(lasts)-1].seq == behind
		if at = behind; !known && at > after && newest-at < apart*uint64(len(evs)) {
			return nil, false
		}
	}
	slices.Reverse(evs)
	return evs, len(lasts) == 0
}

// at reads the event at a position; ok is false where there is none of the aggregate.
func (j journal) at(ctx context.Context, seq uint64, all string) (m directMessage, ok bool) {
	page, err := j.c.direct(ctx, j.stream, directRequest{Seq: seq, Batch: 1})
	if err != nil || len(page.messages) != 1 || page.messages[0].seq != seq {
		return m, false
	}
	m = page.messages[0]
	return m, strings.HasPrefix(stamped(m.Msg, "Nats-Subject"), strings.TrimSuffix(all, ">"))
}

var _ kernel.Journal = journal{}

func newJournal(c *Conn, station, aggregate string) journal {
	return journal{c: c, station: station, stream: topology.Log(station), aggregate: aggregate}
}
