// Package specs holds the specifications of the built-in tools, for the services that judge and offer calls and run
// none. A test of internal/tools keeps it the same as the tools.
package specs

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/pkg/tool"
)

//go:embed specs.json
var stored []byte

// Spec is one tool as it is stored.
type Spec struct {
	Name, Effect string
	TimeoutMS    int64
	Description  []string
	// Input is the schema, byte by byte: models are sent it as it is.
	Input []string
}

// Of returns what is stored of a tool.
func Of(s tool.Spec) Spec {
	return Spec{s.Name, string(s.EffectOf()), s.TimeoutOf().Milliseconds(), strings.Split(s.Description, "\n"),
		strings.Split(string(s.Input), "\n")}
}

// All are the specifications of the built-in tools.
func All() ([]tool.Spec, error) {
	var all []Spec
	if err := json.Unmarshal(stored, &all); err != nil {
		return nil, fmt.Errorf("specifications of the tools: %w", err)
	}
	out := make([]tool.Spec, len(all))
	for i, s := range all {
		out[i] = tool.Spec{Name: s.Name, Effect: tool.Effect(s.Effect),
			Timeout:     time.Duration(s.TimeoutMS) * time.Millisecond,
			Description: strings.Join(s.Description, "\n"), Input: json.RawMessage(strings.Join(s.Input, "\n"))}
	}
	return out, nil
}

// Registry has the specifications of the built-in tools, which cannot be run through it, and more.
func Registry(more ...tool.Tool) (*tool.Registry, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	tools := make([]tool.Tool, 0, len(all)+len(more))
	for _, s := range all {
		tools = append(tools, toolbox.Known(s))
	}
	return tool.NewRegistry(append(tools, more...)...)
}
