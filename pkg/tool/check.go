package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of arguments. What is above them is refused before it is parsed.
const (
	// MaxInput is the most bytes.
	MaxInput = 1 << 20
	// MaxInputDepth is how deep arrays and objects may stand in each other; the arguments themselves are depth 1.
	MaxInputDepth = 32
	// MaxNumber is the most bytes of a number, MaxExponent its largest exponent of ten.
	MaxNumber   = 64
	MaxExponent = 308
	// maxComplaints is the most mistakes told at once, maxComplaint the most bytes told of one: both quote what the
	// model sent.
	maxComplaints = 8
	maxComplaint  = 300
)

// closed refuses a schema's references to anything but itself: no file and no address is ever read for one.
type closed struct{}

func (closed) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is not part of the schema", url)
}

// compile makes a checker of a tool's schema.
func compile(schema json.RawMessage) (*checker, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	if object, ok := doc.(map[string]any); !ok || object["type"] != "object" {
		return nil, errors.New(`want a JSON Schema with "type": "object"`)
	}
	return compiled(doc)
}

func compiled(doc any) (*checker, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(closed{})
	c.UseRegexpEngine(newPattern)
	if err := c.AddResource("tool.json", doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("tool.json")
	if err != nil {
		return nil, err
	}
	return newChecker(s)
}

// Check reports how arguments do not fit a tool's schema, as an *Error of class Invalid that the model can act on:
// each mistake with the JSON Pointer of the place.
func (r *Registry) Check(name string, input json.RawMessage) error {
	schema, ok := r.schemas[name]
	if !ok {
		return Fail(Invalid, "use one of: "+strings.Join(r.names, ", "), fmt.Errorf("no such tool %q", brief(name)))
	}
	return check(schema, "the arguments", input)
}

// check reports how a document, called what, does not fit a schema.
func check(schema *checker, what string, input json.RawMessage) error {
	if len(input) > MaxInput {
		return Fail(Invalid, "send less", fmt.Errorf("%s: %d bytes, the limit is %d", what, len(input), MaxInput))
	}
	if d := depth(input); d > MaxInputDepth {
		return Fail(Invalid, "send arguments with less nesting", fmt.Errorf("%s: %d levels deep, the limit is %d", what, d,
			MaxInputDepth))
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return Fail(Invalid, "send a JSON object", fmt.Errorf("%s: not JSON: %w", what, err))
	}
	if where, ok := hugeNumber("", v); ok {
		return Fail(Invalid, "send a smaller number",
			fmt.Errorf("%s: a number has at most %d characters and an exponent of at most %d", place(where, what), MaxNumber,
				MaxExponent))
	}
	if !schema.affords(v, len(input)) {
		return Fail(Invalid, "send less, with less nesting", fmt.Errorf("%s: %w", what, errCostly))
	}
	err = schema.Validate(v)
	if err == nil {
		return nil
	}
	if ve, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		err = errors.New(complaints(ve, what))
	}
	return Fail(Invalid, "fix the arguments and retry", err)
}

// complaints lists the mistakes that have no finer cause.
func complaints(ve *jsonschema.ValidationError, what string) string {
	var list []string
	for _, u := range ve.BasicOutput().Errors {
		if u.Error != nil {
			list = append(list, place(u.InstanceLocation, what)+": "+brief(u.Error.String()))
		}
	}
	if n := len(list) - maxComplaints; n > 0 {
		list = append(list[:maxComplaints], fmt.Sprintf("and %d more", n))
	}
	if len(list) == 0 {
		return brief(ve.Error())
	}
	return strings.Join(list, "; ")
}

func place(pointer, what string) string {
	if pointer == "" {
		return what
	}
	return brief(pointer)
}

// brief cuts what quotes the model, between characters.
func brief(s string) string {
	if len(s) <= maxComplaint {
		return s
	}
	return strings.ToValidUTF8(s[:maxComplaint], "") + " ..."
}

// depth tells how deep brackets stand in each other, without parsing: it is at least the depth of valid JSON.
func depth(input []byte) int {
	deepest, now := 0, 0
	quoted, escaped := false, false
	for _, c := range input {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// hugeNumber finds a number that exact arithmetic would spend too much on, or give up on.
func hugeNumber(at string, v any) (where string, found bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if where, found = hugeNumber(at+"/"+k, e); found {
				return where, true
			}
		}
	case []any:
		for i, e := range v {
			if where, found = hugeNumber(at+"/"+strconv.Itoa(i), e); found {
				return where, true
			}
		}
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		n, err := strconv.Atoi(exponent)
		return at, len(v) > MaxNumber || exponent != "" && (err != nil || max(n, -n) > MaxExponent)
	}
	return "", false
}
