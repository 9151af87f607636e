package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The events that services read are nearly always events that services wrote, byte for byte as Encode makes them. scan
// reads that one form several times faster than a JSON decoder. Whatever looks different in the least, such as an
// escape, a space or another order, goes the ordinary way, so that both ways always agree (FuzzScan).

// scan reads the envelope of an event. Data is what stands behind "data" up to the last brace; it is not checked. The
// texts of the envelope are parts of one string.
func scan(b []byte) (f Event, ok bool) {
	end := bytes.Index(b, beforeData) // within a string its quotes would be escaped
	if end < 0 {
		return Event{}, false
	}
	s := scanner{rest: string(b[:end]), ok: true}
	s.lit(`{"specversion":"`)
	f.SpecVersion = s.text()
	s.lit(`,"id":"`)
	f.ID = s.text()
	s.lit(`,"source":"`)
	f.Source = s.text()
	s.lit(`,"type":"`)
	f.Type = s.text()
	s.lit(`,"subject":"`)
	f.Subject = s.text()
	s.lit(`,"time":"`)
	at := s.text()
	s.lit(`,"datacontenttype":"`)
	f.ContentType = s.text()
	s.maybe(`,"aggregate":"`, &f.Aggregate)
	s.lit(`,"stationid":"`)
	f.Station = s.text()
	s.maybe(`,"runid":"`, &f.Run)
	s.ok = s.ok && (f.Run != "" || f.Aggregate != "")
	s.maybe(`,"stationrunid":"`, &f.StationRun)
	s.maybe(`,"workflowrunid":"`, &f.WorkflowRun)
	s.maybe(`,"sessionid":"`, &f.Session)
	s.maybe(`,"agentid":"`, &f.AgentID)
	s.maybe(`,"agentname":"`, &f.AgentName)
	s.lit(`,"sequence":`)
	f.Sequence = s.number()
	s.maybe(`,"prevhash":"`, &f.PrevHash)
	s.maybe(`,"traceparent":"`, &f.TraceParent)
	data := b[end+len(beforeData):]
	n := len(data)
	if !s.ok || s.rest != "" || n < 3 || data[0] != '{' || data[n-1] != '}' || data[n-2] != '}' {
		return Event{}, false
	}
	var t time.Time
	if t.UnmarshalText([]byte(at)) != nil {
		return Event{}, false
	}
	f.Time, f.Data = t, json.RawMessage(data[:n-1])
	return f, true
}

// beforeData stands between the envelope and the data.
var beforeData = []byte(`,"data":`)

// scanner walks over a text that must be as expected.
type scanner struct {
	rest string
	ok   bool
}

func (s *scanner) lit(want string) {
	rest, found := strings.CutPrefix(s.rest, want)
	if !s.ok || !found {
		s.ok = false
		return
	}
	s.rest = rest
}

// text reads a string behind its opening quote: plain ASCII without escapes.
func (s *scanner) text() string {
	if !s.ok {
		return ""
	}
	for i := range len(s.rest) {
		switch c := s.rest[i]; {
		case c == '"':
			t := s.rest[:i]
			s.rest = s.rest[i+1:]
			return t
		case c < 0x20 || c == '\\' || c >= 0x7f:
			s.ok = false
			return ""
		}
	}
	s.ok = false
	return ""
}

func (s *scanner) maybe(lit string, dst *string) {
	if rest, found := strings.CutPrefix(s.rest, lit); s.ok && found {
		s.rest = rest
		*dst = s.text()
	}
}

func (s *scanner) number() uint64 {
	var n uint64
	i := 0
	for ; i < len(s.rest) && i < 18 && s.rest[i] >= '0' && s.rest[i] <= '9'; i++ {
		n = 10*n + uint64(s.rest[i]-'0')
	}
	if i == 0 || i == 18 || s.rest[0] == '0' {
		s.ok = false
	}
	s.rest = s.rest[i:]
	return n
}

// Read is Decode and Payload in one, for stored events of runs.
func Read(b []byte) (Event, Payload, error) { return ReadAs(b, RunAggregate, Lookup) }

// ReadAs is Read for an event of any aggregate, with the event types that lookup knows.
func ReadAs(b []byte, aggregate string, lookup func(Kind) (Type, bool)) (Event, Payload, error) {
	f, ok := scan(b)
	if !ok {
		f = Event{}
		if err := json.Unmarshal(b, &f); err != nil {
			return Event{}, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	w, err := f.check(aggregate, lookup)
	if err != nil {
		return Event{}, nil, err
	}
	p := w.New()
	if err := json.Unmarshal(f.Data, p); err != nil {
		return Event{}, nil, fmt.Errorf("%w: data of %s: %w", ErrDamaged, w.Kind, err)
	}
	return f, p, nil
}

// aboutBytes is where the names of the step and the call of an event have ended, if they are first.
const aboutBytes = 256

// About is what an event is about, without the rest of it.
type About struct {
	Sequence   uint64
	Step, Call string
	// Prev is Event.PrevHash.
	Prev string
}

// AboutOf reads what a stored event is about.
func AboutOf(b []byte) (About, error) {
	f, ok := scan(b)
	if !ok {
		var err error
		if f, err = Decode(b); err != nil {
			return About{}, err
		}
	}
	a := About{Sequence: f.Sequence, Prev: f.PrevHash}
	s := scanner{rest: string(f.Data[:min(len(f.Data), aboutBytes)]), ok: true}
	s.lit(`{"event":"`)
	s.text()
	s.lit(`,"step_id":"`)
	a.Step = s.text()
	if s.ok {
		s.maybe(`,"tool_id":"`, &a.Call)
		if s.ok && (a.Call != "" || !bytes.Contains(f.Data, []byte(`"tool_id"`))) {
			return a, nil
		}
	}
	var d struct {
		Step string `json:"step_id"`
		Call string `json:"tool_id"`
	}
	if err := json.Unmarshal(f.Data, &d); err != nil {
		return About{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	a.Step, a.Call = d.Step, d.Call
	return a, nil
}
