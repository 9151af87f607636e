// Package ce reads what strangers send: CloudEvents in structured or binary mode, or a bare JSON document typed by
// hand.
//
// Promises: the official SDK parses CloudEvents; nothing of a message is used unless all of it is understood; an
// unknown key is an error that names it. Errors are for the person who sent the message.
package ce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
)

// Envelope is what a CloudEvent says about itself; empty for a bare document.
type Envelope struct{ ID, Source, Type, TraceParent string }

// MaxDepth bounds the nesting of a document.
const MaxDepth = 64

// Open takes a message apart. header returns the first value of a NATS header, or "".
func Open(data []byte, header func(string) string) (Envelope, []byte, error) {
	if id := first(header, "ce-id", "Ce-Id"); id != "" || first(header, "ce-specversion", "Ce-Specversion") != "" {
		return binary(data, header)
	}
	var probe struct {
		SpecVersion *string `json:"specversion"`
	}
	isCE := strings.HasPrefix(header("Content-Type"), "application/cloudevents+json")
	if json.Unmarshal(data, &probe) == nil && probe.SpecVersion != nil {
		isCE = true
	}
	if !isCE {
		return Envelope{}, data, nil
	}
	var e cloudevents.Event
	if err := e.UnmarshalJSON(data); err != nil {
		return Envelope{}, nil, fmt.Errorf("not a CloudEvent: %w", err)
	}
	return open(&e)
}

func binary(data []byte, header func(string) string) (Envelope, []byte, error) {
	// The SDK has no context for a version that it does not know, and panics on the first attribute.
	version := first(header, "ce-specversion", "Ce-Specversion")
	if version != cloudevents.CloudEventsVersionV1 && version != cloudevents.CloudEventsVersionV03 {
		return Envelope{}, nil, fmt.Errorf("not a CloudEvent: the header ce-specversion is %.40q, want 1.0", version)
	}
	e := cloudevents.New(version)
	e.SetID(first(header, "ce-id", "Ce-Id"))
	e.SetSource(first(header, "ce-source", "Ce-Source"))
	e.SetType(first(header, "ce-type", "Ce-Type"))
	if tp := first(header, "ce-traceparent", "Ce-Traceparent"); tp != "" {
		e.SetExtension("traceparent", tp)
	}
	if err := e.SetData("application/json", json.RawMessage(data)); err != nil {
		return Envelope{}, nil, fmt.Errorf("not a CloudEvent: %w", err)
	}
	return open(&e)
}

func open(e *cloudevents.Event) (Envelope, []byte, error) {
	if err := e.Validate(); err != nil {
		return Envelope{}, nil, fmt.Errorf("not a valid CloudEvent: %w", err)
	}
	env := Envelope{ID: e.ID(), Source: e.Source(), Type: e.Type()}
	if tp, ok := e.Extensions()["traceparent"].(string); ok {
		env.TraceParent = tp
	}
	return env, e.Data(), nil
}

func first(header func(string) string, names ...string) string {
	for _, n := range names {
		if v := header(n); v != "" {
			return v
		}
	}
	return ""
}

// Strict decodes one JSON document into v: no unknown keys, no second document, no deep nesting.
func Strict(data []byte, v any) error {
	if err := depth(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not the JSON that is wanted here: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one JSON document")
	}
	return nil
}

func depth(data []byte) error {
	n, inString, escaped := 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if n++; n > MaxDepth {
				return fmt.Errorf("nested deeper than %d levels", MaxDepth)
			}
		case c == '}' || c == ']':
			n--
		}
	}
	return nil
}
