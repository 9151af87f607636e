package docgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// readSamples returns one stored event of each kind that has one: from a history of a whole run, else the golden sample
// of the kind, whose texts are made up.
func readSamples(root string) (map[events.Kind][]byte, error) {
	samples := map[events.Kind][]byte{}
	histories, err := filepath.Glob(filepath.Join(root, "test", "histories", "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("list histories: %w", err)
	}
	for _, path := range histories {
		if strings.HasPrefix(filepath.Base(path), "bad-") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a history: %w", err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 2*events.MaxEvent)
		for lines.Scan() {
			f, err := events.Decode(lines.Bytes())
			if err != nil {
				continue // a history may have events of kinds that are gone
			}
			if k, err := f.Kind(); err == nil && samples[k] == nil {
				samples[k] = slices.Clone(lines.Bytes())
			}
		}
	}
	for _, w := range everyType() {
		if samples[w.Kind] != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, "pkg", "events", "testdata", string(w.Kind)+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the sample of %s: %w", w.Kind, err)
		}
		samples[w.Kind] = b
	}
	return samples, nil
}

// eventsPage is docs/events.md.
func eventsPage(n notes, samples map[events.Kind][]byte) []byte {
	p := &page{}
	p.WriteString(made)
	p.say("# Events\n")
	p.say("Every event of a run is one CloudEvents 1.0 document in structured JSON, stored on `%s` and published again on `%s`. "+
		"Each kind has one author; an event of another author is refused by the NATS server and by the fold. Fields are only ever added. "+
		"[subjects.md](subjects.md) says who receives what, `schemas/` has a JSON Schema for each kind, [asyncapi.yaml](asyncapi.yaml) all of it for programs.\n",
		strings.ReplaceAll(events.RunEventSubject("{s}", "{r}", "{family}.{verb}"), "..", "."), events.StreamSubject("{s}",
			"{r}"))
	kindTable(p, events.Registry())

	t := &types{notes: n, seen: map[reflect.Type]bool{}}
	p.say("## The envelope\n\n%s A stored event has at most %d bytes; what is larger is in the object store and referred to.\n",
		n.text[module+"pkg/events.Fact"], events.MaxEvent)
	t.table(p, reflect.TypeFor[events.Event]())
	for _, a := range events.Aggregates() {
		if a.Name != events.RunAggregate {
			p.say("## Events of a %s\n\n%s Its events are stored on `%s` and published again on `%s`. They carry `aggregate`, its id is their `subject`, and `sequence` and `prevhash` count and chain the events of that %s alone.\n",
				a.Name, a.Doc, events.EventSubject("{s}", a.Name, "{id}", "{family}.{verb}"),
				events.AggregateStream("{s}", a.Name, "{id}"), a.Name)
			kindTable(p, a.Types)
		}
		for _, w := range a.Types {
			kindSection(p, t, a.Name, w, samples[w.Kind])
		}
	}
	p.say("## What users send\n")
	p.say("A message is the bare JSON document, or a CloudEvent in structured or binary mode with it as data. The type of a CloudEvent is `dev.inspan.task.v1`, `.control.v1`, `.answer.v1` or `.session.v1` and its specversion 1.0. A field that is not listed, or that stands twice, is refused by name; "+
		"refused input goes to the dead-letter list (`inspan dead list`) with a hint. A `Inspan-Token` header comes back in the dead letter. A task text has at most %d bytes.\n", events.MaxTask)
	for _, i := range inputs {
		p.say("### %s\n\n%s Schema: [%s](schemas/%s.json).\n", i.Name, i.Title, i.Name+".json", i.Name)
		t.table(p, reflect.TypeOf(i.Zero))
	}
	p.say("## Live messages\n\nOn `%s` come small JSON objects that are no events and may be lost: `{\"event\":\"token\"}` and `thinking` with `content`, "+
		"`error` with `error` (executor), `tool_output` with `tool_id`, `stream` and `content` (toolrunner). Each attempt of a turn or a call is a stream: "+
		"`stream_id` names it, `n` counts its messages from 1, `at` is how many bytes of text it had before, `done` is true in the last one. "+
		"A stream of a turn, which is what a `step_id` is `owed_since` one event, with another `stream_id` and no lower `attempt` takes the place of the one before.\n\n"+
		"An empty request on `%s` with an inbox for the answer is answered by whoever works on the run: with the messages of its streams so far, put together, "+
		"at most the last 256 KiB of each. Put what comes on both subjects in order by `stream_id` and `at`: nothing is missing and nothing comes twice.\n\n"+
		"Where `INSPAN_STREAMING` says jetstream, the same messages are said on `%s`, kept by the stream `%s` for %s, and published again on the subject above. "+
		"Read them from there in their order before all else: then the text under way is whole although no one answers any more. "+
		"What belongs to turns and calls that have ended is there too; the events tell which.\n",
		events.LiveSubject("{s}", "{r}"), events.SoFarSubject("{s}", "{r}"), events.RetainedSubject("{s}", "{r}"),
		topology.Live("{s}"), span(topology.LiveAge))
	p.say("## Types\n")
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		p.say("### %s\n\n%s\n", next.Name(), n.text[key(next)])
		if next.Kind() == reflect.Struct {
			t.table(p, next)
		} else if values := n.values[key(next)]; len(values) > 0 {
			p.say("One of %s.\n", codes(values))
		}
	}
	return p.bytes()
}

// everyType returns the event types of all aggregates.
func everyType() []events.Type {
	var all []events.Type
	for _, a := range events.Aggregates() {
		all = append(all, a.Types...)
	}
	return all
}

func kindTable(p *page, all []events.Type) {
	var rows [][]string
	for _, w := range all {
		rows = append(rows, []string{"[" + string(w.Kind) + "](#" + anchor(string(w.Kind)) + ")", string(w.Author),
			code(w.Event), w.Doc})
	}
	p.table([]string{"type", "author", "`data.event`", "meaning"}, rows...)
}

func kindSection(p *page, t *types, aggregate string, w events.Type, sample []byte) {
	p.say("## %s\n\n%s\n", w.Kind, w.Doc)
	received := strings.Join(receivers(aggregate, w.Kind), ", ")
	if received == "" {
		received = "no service: its author reads the log"
	}
	p.say("Type `%s`, published by the %s, received by %s. Schema: [%s](%s).\n", w.Kind.Type(), w.Author, received,
		filepath.Base(schemaPath(w.Kind)), strings.TrimPrefix(schemaPath(w.Kind), "docs/"))
	t.table(p, reflect.TypeOf(w.New()).Elem())
	if sample == nil {
		return
	}
	if a, ok := events.AggregateOf(aggregate); ok && w.Line != nil {
		if _, d, err := events.ReadAs(bytes.TrimSpace(sample), a.Name, a.Lookup); err == nil {
			p.say("The event below as a line of text: %s\n", code(w.Line(d)))
		}
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, bytes.TrimSpace(sample), "", "  "); err == nil {
		p.say("<details><summary>Example</summary>\n\n```json\n%s\n```\n\n</details>\n", pretty.String())
	}
}

// receivers are the roles that an event of an aggregate is delivered to.
func receivers(aggregate string, k events.Kind) []string {
	received := []string{}
	for _, h := range topology.AllSubscriptions() {
		if h.Receives(aggregate, k) {
			received = append(received, string(h.Role))
		}
	}
	return received
}

// types writes tables of fields and remembers which types they mention.
type types struct {
	notes notes
	seen  map[reflect.Type]bool
	queue []reflect.Type
}

func key(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func anchor(heading string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(heading, ".", ""), " ", "-"))
}

func (t *types) table(p *page, st reflect.Type) {
	p.table([]string{"field", "type", "always", ""}, t.rows(st)...)
}

func (t *types) rows(st reflect.Type) [][]string {
	var rows [][]string
	for i := range st.NumField() {
		f := st.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			rows = append(rows, t.rows(f.Type)...)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		always := "yes"
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			always = ""
		}
		rows = append(rows, []string{code(name), t.name(f.Type), always, named(t.notes.text[key(st)+"."+f.Name], f.Name,
			code(name))})
	}
	return rows
}

// named puts the name that readers see for the one of the program at the beginning of a comment.
func named(text, field, name string) string {
	if rest, ok := strings.CutPrefix(text, field+" "); ok {
		return name + " " + rest
	}
	return text
}

// name says a type in words, with a link where it has a section of its own.
func (t *types) name(x reflect.Type) string {
	switch x {
	case reflect.TypeFor[time.Time]():
		return "time (RFC 3339, UTC)"
	case reflect.TypeFor[json.RawMessage]():
		return "any JSON"
	}
	switch x.Kind() {
	case reflect.Pointer:
		return t.name(x.Elem())
	case reflect.Slice:
		return "list of " + t.name(x.Elem())
	case reflect.Map:
		return "object of " + t.name(x.Elem()) + " by name"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	}
	if x.Kind() == reflect.String && len(t.notes.values[key(x)]) == 0 {
		return "string"
	}
	if !t.seen[x] {
		t.seen[x] = true
		t.queue = append(t.queue, x)
	}
	return "[" + x.Name() + "](#" + anchor(x.Name()) + ")"
}
