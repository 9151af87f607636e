package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Object is a JSON object that grows from streamed pieces. Numbers are kept as they were written, and fields that we
// do not know are kept like those we do.
type Object map[string]any

// Text is a string that grows.
type Text struct{ b strings.Builder }

// String is all that came so far.
func (t *Text) String() string { return t.b.String() }

// MarshalJSON writes the text as a JSON string.
func (t *Text) MarshalJSON() ([]byte, error) { return Marshal(t.b.String()) }

// Decode reads a JSON object.
func Decode(data []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var o Object
	err := d.Decode(&o)
	return o, err
}

// Marshal is JSON without the escapes that only HTML needs.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// String is the text at key, "" where there is none.
func (o Object) String(key string) string {
	switch v := o[key].(type) {
	case string:
		return v
	case *Text:
		return v.String()
	}
	return ""
}

// Append adds a piece to the text at key.
func (o Object) Append(key, piece string) {
	t, ok := o[key].(*Text)
	if !ok {
		t = &Text{}
		if s, is := o[key].(string); is {
			t.b.WriteString(s)
		}
		o[key] = t
	}
	t.b.WriteString(piece)
}

// fixed are the fields that servers repeat whole in every piece instead of continuing them.
var fixed = map[string]bool{"role": true, "type": true, "id": true, "name": true, "format": true}

// Merge adds a streamed piece: strings grow, objects merge field by field, elements of arrays merge by their "index"
// where they have one and are appended where not, other values replace. Null changes nothing that is there.
func (o Object) Merge(piece Object) {
	for key, value := range piece {
		o.mergeField(key, value)
	}
}

func (o Object) mergeField(key string, value any) {
	switch v := value.(type) {
	case nil:
		if _, has := o[key]; !has {
			o[key] = nil
		}
	case string:
		if !fixed[key] {
			o.Append(key, v)
		} else if o.String(key) == "" {
			o[key] = v
		}
	case map[string]any:
		inner := asObject(o[key])
		if inner == nil {
			inner = Object{}
		}
		inner.Merge(v)
		o[key] = inner
	case []any:
		list, _ := o[key].([]any)
		o[key] = mergeList(list, v)
	default:
		o[key] = v
	}
}

func asObject(v any) Object {
	switch v := v.(type) {
	case Object:
		return v
	case map[string]any:
		return v
	}
	return nil
}

func mergeList(list, pieces []any) []any {
	for _, piece := range pieces {
		p := asObject(piece)
		if i, ok := p["index"].(json.Number); ok {
			if there := withIndex(list, i); there != nil {
				there.Merge(p)
				continue
			}
		}
		if p != nil {
			fresh := Object{}
			fresh.Merge(p)
			piece = fresh
		}
		list = append(list, piece)
	}
	return list
}

// maxOpen is how many elements of an array may grow at the same time; without a limit a hostile stream would make
// every piece search through all before it.
const maxOpen = 256

func withIndex(list []any, i json.Number) Object {
	for _, e := range list[max(0, len(list)-maxOpen):] {
		if o := asObject(e); o != nil && o["index"] == i {
			return o
		}
	}
	return nil
}
