package webhook

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/inspan/inspan/internal/pattern"
)

const (
	// maxValue is the most bytes of one value of a payload in a text, maxTemplate of a template.
	maxValue    = 16 << 10
	maxTemplate = 16 << 10
	// begin and end stand around the place of a value.
	begin, end = "{{", "}}"
)

// place names a value of a payload: keys of objects and numbers of lists, from the outside.
type place []string

var placeRule = pattern.New(`^[A-Za-z0-9_@$-]+(\.[A-Za-z0-9_@$-]+)*$`)

func parsePlace(text string) (place, error) {
	text = strings.TrimSpace(text)
	if !placeRule.MatchString(text) || len(text) > 256 {
		return nil, fmt.Errorf("%q names no value of a payload: want keys "+
			"with dots between them, such as pull_request.number", text)
	}
	return strings.Split(text, "."), nil
}

// text is the value at a place, as text. Only texts, numbers and yes or no have one.
func (at place) text(p Payload) (string, error) {
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

// template is a text with places in it.
type template struct {
	// texts stand around the places: one more than these.
	texts  []string
	places []place
}

func parseTemplate(text string) (t template, err error) {
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
		at, err := parsePlace(inner)
		if err != nil {
			return t, err
		}
		t.places = append(t.places, at)
		text = after
	}
}

// render puts the values of a payload into the text. They are not looked at again for places.
func (t template) render(p Payload) (string, error) {
	var out strings.Builder
	for i, text := range t.texts {
		out.WriteString(text)
		if i < len(t.places) {
			v, err := t.places[i].text(p)
			if err != nil {
				return "", err
			}
			out.WriteString(v)
		}
	}
	return out.String(), nil
}
