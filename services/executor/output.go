package executor

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// fault notes why an answer can not be the last one of its step: it says nothing at all, or it is not the document that the
// agent's output asks for (DLV-9).
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
	doc := turn.Document(text)
	if len(text) > events.MaxInlineText {
		return fmt.Errorf("has %d bytes, the limit of a document is %d", len(text), events.MaxInlineText)
	}
	schema, err := tool.NewSchema(agent.OutputSchema)
	if err != nil {
		return fmt.Errorf("can not be checked: the schema of the agent's output is none: %w", err)
	}
	if err := schema.Check([]byte(doc)); err != nil {
		return fmt.Errorf("does not fit the schema: %w", err)
	}
	return nil
}
