package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema checks documents against a JSON Schema, within the limits that arguments have.
type Schema struct{ s *checker }

// NewSchema compiles a JSON Schema, which may be of any type. It refers to nothing but itself.
func NewSchema(schema json.RawMessage) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err := compiled(doc)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{s}, nil
}

// Check reports each mistake with the JSON Pointer of its place.
func (s *Schema) Check(document []byte) error {
	err := check(s.s, "the document", document)
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Err
	}
	return err
}
