// Package payload reads messages of strangers, which are JSON objects, and puts values of them into templates.
//
// Promises: a template names values and has no other code. A value takes the place of its name and is read no further;
// it is bounded, and what controls a terminal is left out.
package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/pattern"
)

const (
	// maxValue is the most bytes of one value of a payload in a text, maxTemplate of a template.
	maxValue    = 16 << 10
	maxTemplate = 16 << 10
	// begin and end stand around the place of a value.
	begin, end = "{{", "}}"
)

// Place names a value of a payload: keys of objects and numbers of lists, from the outside.
type Place []string

// Payload is what a message says.
type Payload struct{ value any }

// Read reads a message.
func Read(body []byte) (Payload, error) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return Payload{}, errors.New("the body is no JSON object")
	}
	if d.More() {
		return Payload{}, errors.New("the body is more than one JSON object")
	}
	return Payload{v}, nil
}

// Message is a message on a subject: an object is read as Read does, and of any message $subject is its subject and
// $text all of it, if that is text.
func Message(subject string, data []byte) (Payload, error) {
	if !utf8.Valid(data) {
		return Payload{}, errors.New("the message is no text")
	}
	p, err := Read(data)
	v, object := p.value.(map[string]any)
	if err != nil || !object || v == nil {
		v = map[string]any{}
	}
	v["$subject"], v["$text"] = subject, string(data)
	return Payload{v}, nil
}

var placeRule = pattern.New(`^[A-Za-z0-9_@$-]+(\.[A-Za-z0-9_@$-]+)*$`)

// ParsePlace reads the name of a value, such as pull_request.number. A dot before it means the same.
func ParsePlace(text string) (Place, error) {
	text = strings.TrimPrefix(strings.TrimSpace(text), ".")
	if !placeRule.MatchString(text) || len(text) > 256 {
		return nil, fmt.Errorf("%q names no value of a payload: want keys "+
			"with dots between them, such as pull_request.number", text)
	}
	return strings.Split(text, "."), nil
}

// Text is the value at a place, as text. Only texts, numbers and yes or no have one.
func (at Place) Text(p Payload) (string, error) {
	v := p.value
	for _, key := range at {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(in) {
				v = nil
			} else {
				v = in[n]
			}
		default:
			v = nil
		}
	}
	switch x := v.(type) {
	case string:
		return clean(x), nil
	case json.Number:
		return clean(x.String()), nil
	case bool:
		return strconv.FormatBool(x), nil
	}
	return "", fmt.Errorf("the payload has no text or number at %s", strings.Join(at, "."))
}

// clean cuts a value that is too long and leaves out what controls a terminal.
func clean(text string) string {
	if len(text) > maxValue {
		text = strings.ToValidUTF8(text[:maxValue], "") + " [cut]"
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, text)
}

// Template is a text with places in it.
type Template struct {
	// texts stand around the places: one more than these.
	texts  []string
	places []Place
}

// ParseTemplate reads a text in which {{a.b}} stands for the value at that place.
func ParseTemplate(text string) (t Template, err error) {
	if len(text) > maxTemplate {
		return t, fmt.Errorf("%d bytes, the limit is %d", len(text), maxTemplate)
	}
	for {
		before, rest, found := strings.Cut(text, begin)
		t.texts = append(t.texts, before)
		if !found {
			return t, nil
		}
		inner, after, closed := strings.Cut(rest, end)
		if !closed {
			return t, fmt.Errorf("%q has no %s", begin+rest, end)
		}
		at, err := ParsePlace(inner)
		if err != nil {
			return t, err
		}
		t.places = append(t.places, at)
		text = after
	}
}

// Render puts the values of a payload into the text. They are not looked at again for places.
func (t Template) Render(p Payload) (string, error) {
	var out strings.Builder
	for i, text := range t.texts {
		out.WriteString(text)
		if i < len(t.places) {
			v, err := t.places[i].Text(p)
			if err != nil {
				return "", err
			}
			out.WriteString(v)
		}
	}
	return out.String(), nil
}
