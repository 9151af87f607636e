// Package ce reads what strangers send: CloudEvents in structured or binary mode, or a bare JSON document typed by
// hand.
//
// Promises: CloudEvents are read as the official SDK reads them, which the tests compare; nothing of a message is used
// unless all of it is understood; an unknown key and a key that stands twice are errors that name it. Errors are for
// the person who sent the message.
package ce

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Envelope is what a CloudEvent says about itself; empty for a bare document.
type Envelope struct{ ID, Source, Type, TraceParent string }

// MaxDepth bounds the nesting of a document, MaxAttribute an attribute of a CloudEvent in bytes.
const (
	MaxDepth     = 64
	MaxAttribute = 1 << 10
)

// Read takes a message apart and decodes it strictly into v: the document itself, or the data of a CloudEvent of that
// type.
func Read(data []byte, header func(string) string, kind string, v any) (Envelope, error) {
	env, body, err := Open(data, header)
	if err != nil {
		return Envelope{}, err
	}
	if env.Type != "" && env.Type != kind {
		return Envelope{}, fmt.Errorf("the type of the CloudEvent is %.80q, want %s", env.Type, kind)
	}
	return env, Strict(body, v)
}

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
	if probe.SpecVersion != nil && *probe.SpecVersion != version {
		return Envelope{}, nil, fmt.Errorf("not a CloudEvent: the specversion is %.40q, want 1.0", *probe.SpecVersion)
	}
	if err := depth(data); err != nil {
		return Envelope{}, nil, err
	}
	if err := unique(data, reflect.TypeFor[struct{}]()); err != nil {
		return Envelope{}, nil, err
	}
	return structured(data)
}

func first(header func(string) string, names ...string) string {
	for _, n := range names {
		if v := header(n); v != "" {
			return v
		}
	}
	return ""
}

// Strict decodes one JSON document into v: no unknown key, no key twice, no second document, no deep nesting.
func Strict(data []byte, v any) error {
	if err := depth(data); err != nil {
		return err
	}
	if err := unique(data, reflect.TypeOf(v)); err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("it is empty: want a JSON document")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("unexpected JSON: %w", err)
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
