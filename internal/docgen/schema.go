package docgen

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// input is a message that is not an event.
type input struct {
	// Name of its schema file, and a zero value.
	Name, Title string
	Zero        any
	// Open is true where readers must expect further fields: what we say grows, what we are told is refused where it
	// has a field that we do not know.
	Open bool
}

var inputs = []input{
	{Name: "task", Title: "A task: what a user publishes to dispatch work.", Zero: events.Task{}},
	{Name: "control", Title: "A control: what a user publishes to steer a run.", Zero: events.Control{}},
	{Name: "answer", Title: "The answer to a gate.", Zero: events.Answer{}},
	{Name: "deadletter", Title: "Input that was refused, with the reason.", Zero: kernel.DeadLetter{}, Open: true},
}

// schemaPath is where the schema of a kind or an input is.
func schemaPath(k events.Kind) string {
	return "docs/schemas/" + string(k) + ".json"
}

func inputPath(i input) string { return "docs/schemas/" + i.Name + ".json" }

// schemas makes one JSON Schema for each kind and each input.
func schemas(n notes) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, a := range events.Aggregates() {
		for _, w := range a.Types {
			b, err := eventSchema(n, a.Name, w)
			if err != nil {
				return nil, err
			}
			files[schemaPath(w.Kind)] = b
		}
	}
	for _, i := range inputs {
		s := reflector(n, i.Open).Reflect(i.Zero)
		s.ID, s.Title = jsonschema.ID("urn:inspan:schema:"+i.Name), i.Title
		b, err := encode(i.Name, s)
		if err != nil {
			return nil, err
		}
		files[inputPath(i)] = b
	}
	return files, nil
}

func reflector(n notes, open bool) *jsonschema.Reflector {
	return &jsonschema.Reflector{ExpandedStruct: true, Anonymous: true, AllowAdditionalProperties: open,
		LookupComment: func(t reflect.Type, field string) string {
			key := t.PkgPath() + "." + t.Name()
			if field != "" {
				key += "." + field
			}
			return n.text[key]
		}}
}

// eventSchema describes a whole stored event of an aggregate: the envelope with the payload of its kind.
func eventSchema(n notes, aggregate string, w events.Type) ([]byte, error) {
	s := reflector(n, true).Reflect(events.Event{})
	if must := slices.Index(s.Required, "stationid") + 1; aggregate == events.RunAggregate {
		s.Properties.Delete("aggregate") // of other aggregates, which have no runid
		s.Required = slices.Insert(s.Required, must, "runid")
	} else {
		s.Properties.Delete("runid")
		s.Required = slices.Insert(s.Required, must, "aggregate")
	}
	data := reflector(n, true).Reflect(w.New())
	// those may be tool_start and run_start as well
	if event, ok := data.Properties.Get("event"); ok && w.Kind != events.CallAllowed && w.Kind != events.RunCreated {
		event.Const = w.Event
	}
	if s.Definitions == nil {
		s.Definitions = jsonschema.Definitions{}
	}
	for name, def := range data.Definitions {
		s.Definitions[name] = def
	}
	data.Version, data.Definitions = "", nil
	s.ID = jsonschema.ID(fmt.Sprintf("urn:inspan:schema:%s:v%d", w.Kind, events.Version))
	s.Title, s.Description = w.Kind.Type(), w.Doc
	s.Properties.Set("data", data)
	id := fmt.Sprintf("[A-Za-z0-9_-]{1,%d}", events.MaxID)
	for name, limit := range map[string]jsonschema.Schema{
		"specversion":     {Type: "string", Const: "1.0"},
		"type":            {Type: "string", Const: w.Kind.Type()},
		"datacontenttype": {Type: "string", Const: "application/json"},
		"source": {Type: "string", Pattern: "^/station/" + id + "/" + string(w.Author) + "$",
			Description: "Only the " + string(w.Author) + " says it."},
		"stationid": {Type: "string", Pattern: "^" + id + "$"},
		"runid":     {Type: "string", Pattern: "^" + id + "$"},
		"aggregate": {Type: "string", Const: aggregate},
		"subject":   {Type: "string", Pattern: "^" + id + "$", Description: "The " + aggregate + " id."},
	} {
		if _, has := s.Properties.Get(name); has {
			s.Properties.Set(name, &limit)
		}
	}
	if hash, ok := s.Properties.Get("prevhash"); ok {
		hash.Pattern = "^[0-9a-f]{64}$"
	}
	if sequence, ok := s.Properties.Get("sequence"); ok {
		sequence.Minimum = "1"
	}
	return encode(string(w.Kind), s)
}

func encode(name string, s *jsonschema.Schema) ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	return append(b, '\n'), nil
}
