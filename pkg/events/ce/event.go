package ce

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/cloudevents/sdk-go/v2/types"
)

// version is the one of CloudEvents that is read.
const version = "1.0"

// attributes are those that version 1.0 defines; what else an event has is an extension.
func attributes() []string {
	return []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"}
}

// structured reads an event whose attributes stand in the document. An attribute that is null is absent (JSON Event
// Format for CloudEvents 1.0, 2.2).
func structured(document []byte) (Envelope, []byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return Envelope{}, nil, fmt.Errorf("not a CloudEvent: %w", err)
	}
	if v := ""; json.Unmarshal(members["specversion"], &v) != nil || v != version {
		return Envelope{}, nil, errors.New(`not a CloudEvent: want "specversion": "1.0"`)
	}
	for name, value := range members {
		if string(value) == "null" && name != "data" {
			delete(members, name)
		}
	}
	env, err := envelope(members)
	if err != nil {
		return Envelope{}, nil, err
	}
	data, err := content(members)
	if err != nil {
		return Envelope{}, nil, err
	}
	return env, data, nil
}

// envelope reads the attributes, and checks those that are not used as well.
func envelope(members map[string]json.RawMessage) (Envelope, error) {
	text := map[string]string{}
	for _, name := range attributes() {
		value, ok := members[name]
		if !ok {
			continue
		}
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return Envelope{}, invalid(name, errors.New("want a string"))
		}
		text[name] = s
	}
	for name, value := range members {
		if slices.Contains(attributes(), name) || name == "data" || name == "data_base64" {
			continue
		}
		if err := extension(name, value); err != nil {
			return Envelope{}, invalid(name, err)
		}
	}
	if s := text["time"]; s != "" {
		if _, err := types.ParseTime(s); err != nil {
			return Envelope{}, invalid("time", errors.New("want a time such as 2026-01-31T12:00:00Z (RFC 3339)"))
		}
	}
	if s := text["datacontenttype"]; s != "" {
		if _, _, err := mime.ParseMediaType(s); err != nil {
			return Envelope{}, invalid("datacontenttype", err)
		}
	}
	for _, name := range []string{"subject", "datacontenttype"} {
		if s := text[name]; s != "" && strings.TrimSpace(s) == "" {
			return Envelope{}, invalid(name, errors.New("it is blank; leave it out"))
		}
	}
	if u := types.ParseURI(text["dataschema"]); u != nil && !u.Validate() {
		return Envelope{}, invalid("dataschema", errors.New("want an absolute URI"))
	}
	env, err := named(text["id"], text["source"], text["type"])
	if err != nil {
		return Envelope{}, err
	}
	for name, value := range members {
		if strings.EqualFold(name, "traceparent") && json.Unmarshal(value, &env.TraceParent) != nil {
			env.TraceParent = ""
		}
	}
	return env, nil
}

// named is the envelope of the attributes that each event has.
func named(id, source, kind string) (Envelope, error) {
	from, err := url.Parse(source)
	if err != nil {
		return Envelope{}, invalid("source", fmt.Errorf("not a URI reference: %w", errors.Unwrap(err)))
	}
	env := Envelope{ID: id, Source: from.String(), Type: kind}
	for _, a := range [][2]string{{"id", env.ID}, {"source", env.Source}, {"type", env.Type}} {
		if strings.TrimSpace(a[1]) == "" {
			return Envelope{}, invalid(a[0], errors.New("it is missing or blank"))
		}
		if len(a[1]) > MaxAttribute {
			return Envelope{}, fmt.Errorf("the %s of the CloudEvent has %d bytes, the limit is %d", a[0], len(a[1]),
				MaxAttribute)
		}
	}
	return env, nil
}

// extension checks name and value of an attribute that the specification does not define.
func extension(name string, value json.RawMessage) error {
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	if name == "" || strings.ContainsFunc(name, strange) {
		return errors.New("the name of an attribute has letters a to z and digits only")
	}
	if slices.Contains(attributes(), strings.ToLower(name)) {
		return fmt.Errorf("write it as %s", strings.ToLower(name))
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return errors.New("want a string, a boolean or an integer of 32 bits")
	}
	if _, err := types.Validate(v); err != nil {
		return errors.New("want a string, a boolean or an integer of 32 bits")
	}
	return nil
}

// content is the data: JSON as it stands, a text or bytes without their encoding.
func content(members map[string]json.RawMessage) ([]byte, error) {
	data, plain := members["data"]
	encoded, binary := members["data_base64"]
	var s string
	switch {
	case plain && binary:
		return nil, invalid("data_base64", errors.New("an event has data or data_base64, not both"))
	case binary:
		if err := json.Unmarshal(encoded, &s); err != nil {
			return nil, invalid("data_base64", errors.New("want a string"))
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, invalid("data_base64", err)
		}
		return b, nil
	case !plain:
		return nil, nil
	}
	var kind string
	if t, ok := members["datacontenttype"]; ok {
		_ = json.Unmarshal(t, &kind) // envelope has read it
	}
	if isJSON(kind) {
		return data, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, invalid("data", fmt.Errorf("want a string, as the datacontenttype is %.80q", kind))
	}
	return []byte(s), nil
}

// isJSON reports whether data of a content type stand in the document as they are.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.TrimSpace(media) {
	case "", "application/json", "text/json", "application/cloudevents+json", "application/cloudevents-batch+json":
		return true
	}
	return false
}

// binary reads an event whose attributes stand in headers.
func binary(data []byte, header func(string) string) (Envelope, []byte, error) {
	if v := first(header, "ce-specversion", "Ce-Specversion"); v != version {
		return Envelope{}, nil, fmt.Errorf("not a CloudEvent: the header ce-specversion is %.40q, want 1.0", v)
	}
	if len(data) > 0 && !json.Valid(data) {
		return Envelope{}, nil, errors.New("not a CloudEvent: its data is not JSON")
	}
	trimmed := func(names ...string) string { return strings.TrimSpace(first(header, names...)) }
	env, err := named(trimmed("ce-id", "Ce-Id"), first(header, "ce-source", "Ce-Source"), trimmed("ce-type", "Ce-Type"))
	if err != nil {
		return Envelope{}, nil, err
	}
	env.TraceParent = first(header, "ce-traceparent", "Ce-Traceparent")
	return env, data, nil
}

func invalid(name string, err error) error {
	return fmt.Errorf("not a valid CloudEvent: %.80q: %w", name, err)
}
