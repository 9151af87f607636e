package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

// shout is a whole tool: it says what it is and does one call at a time.
type shout struct{}

func (shout) Spec() tool.Spec {
	return tool.Spec{Name: "shout", Description: "Write a text in capitals.", Effect: tool.Read,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string"}}}`)}
}

func (shout) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(c.Input, &args); err != nil {
		return tool.Result{}, tool.Fail(tool.Invalid, "send a text", err)
	}
	return tool.Result{Output: strings.ToUpper(args.Text)}, nil
}

// How to write a tool and put it among the others: the registry checks arguments before the tool sees them.
func Example() {
	tools, err := tool.NewRegistry(shout{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, input := range []string{`{"text":"hello"}`, `{"words":"hello"}`} {
		if err := tools.Check("shout", json.RawMessage(input)); err != nil {
			fmt.Println(tool.ClassOf(err))
			continue
		}
		t, _ := tools.Get("shout")
		r, _ := t.Run(context.Background(), tool.Call{ID: "call-1", Input: json.RawMessage(input)})
		fmt.Println(r.Output)
	}
	// Output:
	// HELLO
	// invalid
}
