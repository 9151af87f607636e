package backup

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/runlog"
)

// Carried is an input as another place takes it: a task without an id gets the one that its place and time in the
// stream of inputs give it, so that it starts the run that it would have started.
func Carried(station string, m Message) Message { return named(station, m) }

// named gives a task without an id the id that its place and time in the stream of inputs give it: at the restored
// station it has another place. Everything else stays as it is; an envelope has an id of its own.
func named(station string, m Message) Message {
	task := "station." + station + ".task"
	if m.Subject != task && !strings.HasPrefix(m.Subject, task+".") {
		return m
	}
	for header := range m.Header {
		if strings.HasPrefix(strings.ToLower(header), "ce-") {
			return m
		}
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(m.Data, &body) != nil || body["specversion"] != nil {
		return m
	}
	if id := body["id"]; len(id) > 0 && !slices.Contains([]string{`""`, "null"}, string(id)) {
		return m
	}
	id, err := json.Marshal(runlog.IDOf(station, m.Seq, m.Time))
	if err != nil {
		return m
	}
	body["id"] = id
	if b, err := json.Marshal(body); err == nil {
		m.Data = b
	}
	return m
}
