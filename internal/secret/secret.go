// Package secret holds values that must not be printed.
//
// Promises: every printer of a Value says "***", also inside a struct, behind %#v, in JSON, in text encodings and in
// structured logs; an empty Value prints as nothing so that a missing one can be told from a hidden one. Only Reveal
// gives the content. A Value does not hide from a debugger or from reflection that means to look.
package secret

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

const mask = "***"

// Value is a secret text, such as a key. The zero Value is empty.
type Value struct {
	// text is behind a pointer because fmt reads unexported fields of other structs without asking their methods; it
	// prints an address for a pointer.
	text *string
}

// New hides text, without the white space around it that files and shells leave.
func New(text string) Value {
	text = strings.TrimSpace(text)
	if text == "" {
		return Value{}
	}
	return Value{text: &text}
}

// Reveal gives the content, for the one place that sends it.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Empty reports whether there is no secret.
func (v Value) Empty() bool { return v.text == nil }

// String gives the mask.
func (v Value) String() string {
	if v.Empty() {
		return ""
	}
	return mask
}

// GoString gives the mask.
func (v Value) GoString() string { return v.String() }

// Format gives the mask for every verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }

// LogValue gives the mask.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }

// MarshalText gives the mask.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// MarshalJSON gives the mask.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + v.String() + `"`), nil }

// MarshalYAML gives the mask.
func (v Value) MarshalYAML() (any, error) { return v.String(), nil }

// UnmarshalText reads a secret, for example from the environment.
func (v *Value) UnmarshalText(text []byte) error {
	*v = New(string(text))
	return nil
}

// Mask returns a function that puts "***" in the place of secrets in a text that somebody else made. It finds them only
// as they stand: who means to carry one out can write it in another form.
func Mask(secrets ...Value) func(string) string {
	var texts []string
	for _, s := range secrets {
		if !s.Empty() {
			texts = append(texts, s.Reveal())
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	var pairs []string
	for _, t := range texts {
		pairs = append(pairs, t, mask)
	}
	return strings.NewReplacer(pairs...).Replace
}
