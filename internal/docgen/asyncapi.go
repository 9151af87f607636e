package docgen

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/pkg/events"
)

// object is a YAML mapping whose keys stay in order.
type object = yaml.MapSlice

func entry(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

func ref(to string) object { return object{entry("$ref", to)} }

// channel is one address and what is said on it.
type channel struct {
	id, address, what string
	messages          []string
	// action is "receive" for what the station receives and "send" for what it publishes; operation is its name.
	action, operation string
	extra             object
}

// asyncAPI is docs/asyncapi.yaml (ECO-1): an AsyncAPI 3 document, told from the station's side.
func asyncAPI() ([]byte, error) {
	channels, operations := object{}, object{}
	for _, c := range addresses() {
		channels = append(channels, entry(c.id, c.described()))
		operations = append(operations, entry(c.operation, c.performed()))
	}
	doc := object{
		entry("asyncapi", "3.0.0"),
		entry("info", object{
			entry("title", "Inspan station"), entry("version", fmt.Sprintf("%d.0.0", events.Version)),
			entry("description", "What a station receives and publishes on NATS. Events are CloudEvents 1.0 in structured JSON."),
			entry("license", object{entry("name", "Apache-2.0")}),
		}),
		entry("defaultContentType", "application/json"),
		entry("servers", object{entry("local", object{entry("host", "127.0.0.1:4222"), entry("protocol", "nats"),
			entry("description", "Where inspan up listens.")})}),
		entry("channels", channels), entry("operations", operations),
		entry("components", object{entry("messages", messages()), entry("parameters", parameters())}),
	}
	b, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("encode the AsyncAPI document: %w", err)
	}
	return append([]byte("# Made by make docs. Changes belong into the program.\n"), b...), nil
}

// addresses lists what a user needs first and the single events last.
func addresses() []channel {
	kinds := kindsOf(events.Registry())
	const s, r = "{station}", "{run}"
	list := []channel{
		{id: "task", address: events.TaskSubject(s), what: "Where users dispatch.", messages: []string{"task"},
			action: "receive", operation: "hearTask"},
		{id: "task.project", address: events.TaskSubject(s) + ".{project}", what: "Where users dispatch for a project.",
			messages: []string{"task"}, action: "receive", operation: "hearTaskOfProject"},
		{id: "control", address: events.ControlSubject(s, r), what: "Where users steer a run.", messages: []string{"control"},
			action: "receive", operation: "hearControl"},
		{id: "gate", address: events.GateSubject(s, r, "{gate}"),
			what: "Where a gate is answered; who answers is only claimed.", messages: []string{"answer"}, action: "receive",
			operation: "hearAnswer"},
		{id: "gate.approver", address: events.GateSubject(s, r, "{gate}") + ".{approver}",
			what: "Where a gate is answered by the user that permissions bind to the last token.", messages: []string{"answer"},
			action: "receive", operation: "hearAnswerOfApprover"},
		{id: "stream", address: events.StreamSubject(s, r),
			what: "Every event of a run once it is stored, published again by the NATS server.", messages: kinds, action: "send",
			operation: "sayStream"},
		{id: "live", address: events.LiveSubject(s, r),
			what:     "Tokens, thinking and tool output as they come. Nothing that is said here is stored.",
			messages: []string{"live"}, action: "send", operation: "sayLive"},
		{id: "kept", address: events.RetainedSubject(s, r),
			what:     "The same, where the server is to keep it for a while. It is published again where live messages are.",
			messages: []string{"live"}, action: "send", operation: "sayKept"},
		{id: "sofar", address: events.SoFarSubject(s, r),
			what: "Where a watcher asks for the live messages so far. They go to the reply subject.", messages: []string{"live"},
			action: "receive", operation: "hearSoFar"},
		{id: "dead", address: events.DeadSubject(s, "{role}"), what: "Input that a role refused, with the reason.",
			messages: []string{"deadletter"}, action: "send", operation: "sayDead"},
	}
	for _, a := range events.Aggregates() {
		id := "{" + a.Name + "}"
		if a.Name != events.RunAggregate {
			list = append(list, channel{id: "stream." + a.Name, address: events.AggregateStream(s, a.Name, id),
				what:     "Every event of a " + a.Name + " once it is stored, published again by the NATS server.",
				messages: kindsOf(a.Types), action: "send", operation: "sayStreamOf." + a.Name})
		}
		for _, w := range a.Types {
			list = append(list, channel{id: "fact." + string(w.Kind), address: events.EventSubject(s, a.Name, id, w.Kind),
				what: w.Doc, messages: []string{string(w.Kind)}, action: "send", operation: "say." + string(w.Kind),
				extra: object{entry("x-author", string(w.Author)), entry("x-received-by", receivers(a.Name, w.Kind)),
					entry("x-monitoring-event", w.Event)}})
		}
	}
	return list
}

func kindsOf(all []events.Type) []string {
	var kinds []string
	for _, w := range all {
		kinds = append(kinds, string(w.Kind))
	}
	return kinds
}

func (c channel) described() object {
	said, params := object{}, object{}
	for _, m := range c.messages {
		said = append(said, entry(m, ref("#/components/messages/"+m)))
	}
	for token := range strings.SplitSeq(c.address, ".") {
		if name, ok := strings.CutPrefix(token, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			params = append(params, entry(name, ref("#/components/parameters/"+name)))
		}
	}
	return object{entry("address", c.address), entry("description", c.what), entry("messages", said),
		entry("parameters", params)}
}

func (c channel) performed() object {
	var refs []object
	for _, m := range c.messages {
		refs = append(refs, ref("#/channels/"+c.id+"/messages/"+m))
	}
	return append(object{entry("action", c.action), entry("channel", ref("#/channels/"+c.id)), entry("summary", c.what),
		entry("messages", refs)}, c.extra...)
}

func messages() object {
	all := object{}
	add := func(name, title, summary, content string, payload object) {
		all = append(all, entry(name, object{entry("name", title), entry("title", name), entry("summary", summary),
			entry("contentType", content), entry("payload", payload)}))
	}
	for _, w := range everyType() {
		add(string(w.Kind), w.Kind.Type(), w.Doc, "application/cloudevents+json",
			ref("./"+strings.TrimPrefix(schemaPath(w.Kind), "docs/")))
	}
	for _, i := range inputs {
		add(i.Name, i.Name, i.Title, "application/json", ref("./"+strings.TrimPrefix(inputPath(i), "docs/")))
	}
	add("live", "live", "What is under way.", "application/json", object{entry("type", "object"),
		entry("required", []string{"event"}),
		entry("properties", object{
			entry("event", object{entry("type", "string"), entry("enum", []string{"token", "thinking", "error",
				"tool_output"})}),
			entry("stream_id", object{entry("type", "string"), entry("description", "Two attempts never share one.")}),
			entry("n", object{entry("type", "integer"), entry("description", "Counts the messages of a stream from 1.")}),
			entry("at", object{entry("type", "integer"), entry("description", "How many bytes of text the stream had before.")}),
			entry("content", object{entry("type", "string")}),
			entry("done", object{entry("type", "boolean"), entry("description", "True in the last message of a stream.")}),
		})})
	return all
}

func parameters() object {
	var all object
	params := []struct{ name, what string }{
		{"station", "The station."}, {"project", "A project of the station."},
		{"gate", "The gate's id, as gate.opened names it."},
		{"approver", "Who answers."}, {"role", "The role that refused."},
	}
	for _, a := range events.Aggregates() {
		params = append(params, struct{ name, what string }{a.Name, "The " + a.Name + "'s id."})
	}
	for _, p := range params {
		all = append(all, entry(p.name, object{entry("description",
			fmt.Sprintf("%s One token of A-Z a-z 0-9 _ and -, at most %d.", p.what, events.MaxID))}))
	}
	return all
}
