package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxEvent is the most bytes one stored event may have. Larger parts go to the object store first and are referred to.
const MaxEvent = 256 << 10

// Identity names where an event belongs. It is the same for all events of a run.
type Identity struct {
	Station     string `json:"stationid"`
	Run         string `json:"runid,omitempty"`
	StationRun  string `json:"stationrunid,omitempty"`
	WorkflowRun string `json:"workflowrunid,omitempty"`
	Session     string `json:"sessionid,omitempty"`
	AgentID     string `json:"agentid,omitempty"`
	AgentName   string `json:"agentname,omitempty"`
}

// Event is one stored event: a CloudEvents 1.0 document in structured JSON with our extensions. Its subject is the id
// of its aggregate.
type Event struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"`
	Time        time.Time `json:"time"`
	ContentType string    `json:"datacontenttype"`
	// Aggregate is empty for a run, whose events began before there were others.
	Aggregate string `json:"aggregate,omitempty"`
	Identity
	// Sequence counts the events of a run from 1 without a gap.
	Sequence uint64 `json:"sequence"`
	// PrevHash is the lower-case hex SHA-256 of the exact stored bytes of the event before; empty for the first.
	PrevHash string `json:"prevhash,omitempty"`
	// TraceParent is the W3C trace context (distributed tracing extension).
	TraceParent string          `json:"traceparent,omitempty"`
	Data        json.RawMessage `json:"data"`
}

// ErrDamaged marks bytes that are not a sound event. Nothing of such an event is used.
var ErrDamaged = errors.New("damaged event")

// Source returns the CloudEvents source of a service: /station/{s}/{service}.
func Source(station string, by Service) string { return "/station/" + station + "/" + string(by) }

// Author returns the service in Source, or "" where the source is not of this event's station.
func (f *Event) Author() Service {
	rest, ok := strings.CutPrefix(f.Source, "/station/"+f.Station+"/")
	if !ok {
		return ""
	}
	return Service(rest)
}

// AggregateName returns the name of the aggregate that the event is of.
func (f *Event) AggregateName() string {
	if f.Aggregate == "" {
		return RunAggregate
	}
	return f.Aggregate
}

// HashOf returns the lower-case hex SHA-256 of bytes. Of an event exactly as it is stored, it is the hash that the next
// one must carry.
func HashOf(stored []byte) string {
	h := sha256.Sum256(stored)
	return hex.EncodeToString(h[:])
}

// Kind returns the kind named by Type, or an *UnknownTypeError.
func (f *Event) Kind() (Kind, error) { return ParseType(f.Type) }

// Encode returns the bytes to store. The event must be complete.
func (f *Event) Encode() ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", f.Type, err)
	}
	return b, nil
}

// EncodeWith sets the data of an event to a payload and returns the bytes to store, which are those that Encode makes.
func (f *Event) EncodeWith(p Payload) ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", p.Kind(), err)
	}
	f.Data = data
	if b, ok := f.write(); ok {
		return b, nil
	}
	return f.Encode()
}

// Decode reads a stored event and checks its envelope. It returns ErrDamaged (wrapped with what is wrong) or an
// *UnknownTypeError; the payload is not looked at, see Payload.
func Decode(b []byte) (Event, error) {
	var f Event
	if err := json.Unmarshal(b, &f); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if _, err := f.check(RunAggregate, Lookup); err != nil {
		return Event{}, err
	}
	return f, nil
}

// check returns the event type of an event of an aggregate, and an error for one whose envelope is not sound.
func (f *Event) check(aggregate string, lookup func(Kind) (Type, bool)) (Type, error) {
	k, ok := kindOf(f.Type)
	if !ok {
		return Type{}, &UnknownTypeError{Type: f.Type}
	}
	w, ok := lookup(k)
	if !ok {
		return Type{}, &UnknownTypeError{Type: f.Type}
	}
	if fault := f.fault(); fault != "" {
		return Type{}, fmt.Errorf("%w: %s", ErrDamaged, fault)
	}
	if name := f.AggregateName(); name != aggregate {
		return Type{}, fmt.Errorf("%w: it is of aggregate %s, not %s", ErrDamaged, name, aggregate)
	}
	return w, nil
}

func (f *Event) fault() string {
	switch {
	case f.SpecVersion != "1.0":
		return fmt.Sprintf("specversion %q", f.SpecVersion)
	case f.ID == "":
		return "no id"
	case f.Aggregate != "":
		return f.faultOfOther()
	case !ValidID(f.Station) || !ValidID(f.Run):
		return "stationid or runid is missing or not an id"
	case f.Subject != f.Run:
		return "subject is not the run id"
	}
	return f.faultOfAny()
}

// faultOfOther is fault for an event of an aggregate that is no run.
func (f *Event) faultOfOther() string {
	switch {
	case f.Aggregate == RunAggregate || CheckAggregate(f.Aggregate) != nil:
		return fmt.Sprintf("aggregate %q", shorten(f.Aggregate))
	case !ValidID(f.Station) || !ValidID(f.Subject):
		return "stationid or subject is missing or not an id"
	}
	return f.faultOfAny()
}

// faultOfAny is what fault looks at whatever the event is of.
func (f *Event) faultOfAny() string {
	switch {
	case f.Author() == "":
		return fmt.Sprintf("source %q is not of station %q", f.Source, f.Station)
	case f.Time.IsZero():
		return "no time"
	case f.Time.Location() != time.UTC:
		return "time is not in UTC"
	case f.ContentType != "application/json":
		return fmt.Sprintf("datacontenttype %q", shorten(f.ContentType))
	case f.Sequence == 0:
		return "no sequence"
	case f.Sequence > 1 && len(f.PrevHash) != 64:
		return "no prevhash"
	case len(f.Data) == 0 || bytes.Equal(f.Data, []byte("null")):
		return "no data"
	}
	return ""
}

// Payload decodes the data of an event into the type of its kind.
func (f *Event) Payload() (Payload, error) {
	k, err := f.Kind()
	if err != nil {
		return nil, err
	}
	p := byKind[k].New()
	if err := json.Unmarshal(f.Data, p); err != nil {
		return nil, fmt.Errorf("%w: data of %s: %w", ErrDamaged, k, err)
	}
	return p, nil
}
