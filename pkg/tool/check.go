package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of arguments.
const (
	MaxInput      = 1 << 20
	MaxInputDepth = 32
)

var schemas sync.Map // placeholder

// Check reports how arguments do not fit a tool's schema, as an *Error of class Invalid that the model can act on.
func (r *Registry) Check(name string, input json.RawMessage) error {
	t, ok := r.Get(name)
	if !ok {
		return Fail(Invalid, "", fmt.Errorf("there is no tool %q", name))
	}
	if len(input) > MaxInput {
		return Fail(Invalid, "send less", fmt.Errorf("the arguments have %d bytes, the limit is %d", len(input), MaxInput))
	}
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(t.Spec().Input))
	if err != nil {
		return err
	}
	if err := c.AddResource("tool.json", doc); err != nil {
		return err
	}
	s, err := c.Compile("tool.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return Fail(Invalid, "send a JSON object", err)
	}
	var ve *jsonschema.ValidationError
	if err := s.Validate(v); errors.As(err, &ve) {
		return Fail(Invalid, "mend the arguments and call again", errors.New(strings.ReplaceAll(ve.Error(), "\n", "; ")))
	}
	return nil
}
