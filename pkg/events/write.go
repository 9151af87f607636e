package events

import (
	"strconv"
	"time"
)

// envelopeBytes is about how long an envelope is.
const envelopeBytes = 768

// write makes the bytes of an event whose data is as json.Marshal wrote it, in the one form that scan reads. ok is
// false where the envelope has a text that JSON escapes.
func (f *Event) write() (b []byte, ok bool) {
	if y := f.Time.Year(); y < 1 || y > 9999 || f.Time.Location() != time.UTC {
		return nil, false
	}
	w := writer{b: make([]byte, 0, envelopeBytes+len(f.Data)), ok: true}
	w.text(`{"specversion":"`, f.SpecVersion)
	w.text(`,"id":"`, f.ID)
	w.text(`,"source":"`, f.Source)
	w.text(`,"type":"`, f.Type)
	w.text(`,"subject":"`, f.Subject)
	w.b = append(w.b, `,"time":"`...)
	w.b = append(f.Time.AppendFormat(w.b, time.RFC3339Nano), '"')
	w.text(`,"datacontenttype":"`, f.ContentType)
	w.some(`,"aggregate":"`, f.Aggregate)
	w.text(`,"stationid":"`, f.Station)
	w.some(`,"runid":"`, f.Run)
	w.some(`,"stationrunid":"`, f.StationRun)
	w.some(`,"workflowrunid":"`, f.WorkflowRun)
	w.some(`,"sessionid":"`, f.Session)
	w.some(`,"agentid":"`, f.AgentID)
	w.some(`,"agentname":"`, f.AgentName)
	w.b = append(w.b, `,"sequence":`...)
	w.b = strconv.AppendUint(w.b, f.Sequence, 10)
	w.some(`,"prevhash":"`, f.PrevHash)
	w.some(`,"traceparent":"`, f.TraceParent)
	w.b = append(append(append(w.b, beforeData...), f.Data...), '}')
	return w.b, w.ok
}

// writer gathers the bytes of an envelope.
type writer struct {
	b  []byte
	ok bool
}

// text appends a text behind its key and opening quote.
func (w *writer) text(key, s string) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.ok = false
			return
		}
	}
	w.b = append(append(append(w.b, key...), s...), '"')
}

// some is text for one that is left out where it is empty.
func (w *writer) some(key, s string) {
	if s != "" {
		w.text(key, s)
	}
}
