package ce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
)

// unique returns an error that names a key that stands twice in an object of the document. Of a struct the decoder
// takes a key in any case, so there two that differ in case alone are the same. What is no JSON is left to the decoder.
func unique(data []byte, t reflect.Type) error {
	if !json.Valid(data) {
		return nil // of a list that is cut off in a text, More reports another element for ever
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return uniqueIn(d, t, "")
}

func uniqueIn(d *json.Decoder, t reflect.Type, at string) error {
	t = plainType(t)
	open, err := d.Token()
	if err != nil {
		return nil //nolint:nilerr // the decoder has the better error
	}
	switch open {
	case json.Delim('{'):
		return uniqueKeys(d, t, at)
	case json.Delim('['):
		var element reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			element = t.Elem()
		}
		for i := 0; d.More(); i++ {
			if err := uniqueIn(d, element, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		_, _ = d.Token()
	}
	return nil
}

func uniqueKeys(d *json.Decoder, t reflect.Type, at string) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil //nolint:nilerr // as above
		}
		path := strings.TrimPrefix(at+"."+key, ".")
		same := key
		if t != nil && t.Kind() == reflect.Struct {
			same = strings.Map(folded, key)
		}
		if seen[same] {
			return fmt.Errorf("the key %.200q is used twice", path)
		}
		seen[same] = true
		if err := uniqueIn(d, valueType(t, key), path); err != nil {
			return err
		}
	}
	_, _ = d.Token()
	return nil
}

// folded is one character for all that differ in case alone, as the decoder compares them.
func folded(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// plainType is the type that a value is decoded into field by field; nil where it is taken as it stands.
func plainType(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	return t
}

// valueType is the type that the value of a key is decoded into; nil where it is not known.
func valueType(t reflect.Type, key string) reflect.Type {
	switch {
	case t == nil:
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			if f.IsExported() && strings.EqualFold(name, key) {
				return f.Type
			}
		}
	}
	return nil
}
