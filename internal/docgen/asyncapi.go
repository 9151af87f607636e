package docgen

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/pkg/events"
)

// object is a YAML mapping in a given order.
type object = yaml.MapSlice

func ref(to string) object { return object{{Key: "$ref", Value: to}} }

// asyncAPI is docs/asyncapi.yaml: the station as others see it. It receives what outsiders say and sends facts.
func asyncAPI() ([]byte, error) {
	var channels, operations, messages object
	for _, w := range events.Vocabulary() {
		name := camel(string(w.Kind))
		messages = append(messages, message(name, string(w.Kind), w.Doc, "application/cloudevents+json"))
		channels = append(channels, channel(name, events.FactSubject(station, anyRun, w.Kind), "Facts of kind "+string(w.Kind)+".", name))
		operations = append(operations, operation("say", name, "send", w.Doc, object{{Key: "x-author", Value: string(w.Author)},
			{Key: "x-heard-by", Value: hearers(w.Kind)}, {Key: "x-monitoring-event", Value: w.Event}}))
	}
	for _, in := range inputs {
		messages = append(messages, message(in.name, in.name, in.title+" from outside.", "application/json"))
		for i, subject := range in.subjects {
			name := in.name
			if i > 0 {
				name += "Named"
			}
			channels = append(channels, channel(name, subject, in.title+" from outside.", in.name))
			operations = append(operations, operation("hear", name, "receive", in.title+" from outside.", nil))
		}
	}
	var all []string
	for _, w := range events.Vocabulary() {
		all = append(all, camel(string(w.Kind)))
	}
	channels = append(channels, channel("stream", events.StreamSubject(station, anyRun), "Every stored fact of a run, as it is stored.", all...))
	operations = append(operations, operation("say", "stream", "send", "The server says every stored fact again.", nil))
	doc := object{
		{Key: "asyncapi", Value: "3.0.0"},
		{Key: "info", Value: object{{Key: "title", Value: "Inspan station"}, {Key: "version", Value: fmt.Sprintf("%d.0.0", events.Version)},
			{Key: "description", Value: "What a station says and hears on NATS. Facts are CloudEvents 1.0 in structured JSON."}}},
		{Key: "defaultContentType", Value: "application/cloudevents+json"},
		{Key: "channels", Value: channels},
		{Key: "operations", Value: operations},
		{Key: "components", Value: object{{Key: "messages", Value: messages}}},
	}
	var b bytes.Buffer
	b.WriteString("# Made by cmd/docgen from the program. Do not edit: change the source and run make docs.\n")
	if err := yaml.NewEncoder(&b, yaml.Indent(2)).Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func message(name, schema, doc, contentType string) yaml.MapItem {
	return yaml.MapItem{Key: name, Value: object{{Key: "name", Value: schema}, {Key: "title", Value: schema}, {Key: "summary", Value: doc},
		{Key: "contentType", Value: contentType}, {Key: "payload", Value: ref("./schemas/" + schema + ".json")}}}
}

// channel has an address whose words in braces are its parameters.
func channel(name, address, doc string, messages ...string) yaml.MapItem {
	var parameters, may object
	for _, t := range strings.Split(address, ".") {
		if p, ok := strings.CutPrefix(t, "{"); ok {
			p = strings.TrimSuffix(p, "}")
			parameters = append(parameters, yaml.MapItem{Key: p, Value: object{{Key: "description", Value: parameterDocs[p]}}})
		}
	}
	for _, m := range messages {
		may = append(may, yaml.MapItem{Key: m, Value: ref("#/components/messages/" + m)})
	}
	return yaml.MapItem{Key: name, Value: object{{Key: "address", Value: address}, {Key: "description", Value: doc},
		{Key: "messages", Value: may}, {Key: "parameters", Value: parameters}}}
}

// parameterDocs says what the words in braces stand for.
var parameterDocs = map[string]string{
	"station": "Id of the station.", "run": "Id of the run.", "gate": "Id of the gate, as in gate.opened.",
	"source": "Who sends the task.", "approver": "Who answers; NATS permissions bind it to a user.",
}

func operation(verb, channel, action, doc string, more object) yaml.MapItem {
	op := object{{Key: "action", Value: action}, {Key: "channel", Value: ref("#/channels/" + channel)}, {Key: "summary", Value: doc}}
	return yaml.MapItem{Key: verb + strings.ToUpper(channel[:1]) + channel[1:], Value: append(op, more...)}
}

// camel makes stepReady of step.ready: keys of AsyncAPI have no dots.
func camel(kind string) string {
	family, verb, _ := strings.Cut(kind, ".")
	return family + strings.ToUpper(verb[:1]) + verb[1:]
}
