package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// fault notes why an answer cannot be the last one of its step: it says nothing at all, or it is not the document that
// the agent's output asks for (DLV-9).
func fault(agent events.Agent, a llm.Answer, d *events.TurnFinishedData) {
	switch {
	case len(a.Calls) > 0 || a.Finish == llm.Length || a.Finish == llm.Refusal:
	case strings.TrimSpace(a.Text) == "":
		d.FinishReason, d.OutputFault = events.FinishEmpty, "said nothing and asked for no call"
	case len(agent.OutputSchema) > 0:
		if err := fits(agent, a.Text); err != nil {
			d.OutputFault = err.Error()
		}
	}
}

func fits(agent events.Agent, text string) error {
	doc := acceptance.Document(text)
	if len(text) > events.MaxInlineText {
		return fmt.Errorf("has %d bytes, the limit of a document is %d", len(text), events.MaxInlineText)
	}
	schema, err := tool.NewSchema(agent.OutputSchema)
	if err != nil {
		return fmt.Errorf("cannot be checked: the schema of the agent's output is none: %w", err)
	}
	if err := schema.Check([]byte(doc)); err != nil {
		return fmt.Errorf("does not fit the schema: %w", err)
	}
	return nil
}

// half marks the call in which an answer was cut off, at the output limit or by a filter. Arguments that had begun are
// no JSON then, but where none had come they look like a call without any: such a call is not made, also where it needs
// none.
func half(a *llm.Answer) {
	if a.Finish != llm.Length && a.Finish != llm.Refusal || len(a.Calls) == 0 {
		return
	}
	last := &a.Calls[len(a.Calls)-1]
	var none map[string]json.RawMessage
	if err := json.Unmarshal(last.Input, &none); len(bytes.TrimSpace(last.Input)) == 0 || err == nil && len(none) == 0 {
		last.Input = json.RawMessage(strconv.Quote(events.CutOff))
	}
}
