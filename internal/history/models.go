package history

import (
	"context"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// ToModel makes model messages, fetching what is stored apart.
func ToModel(ctx context.Context, blobs Getter, all []events.Message) ([]llm.Message, error) {
	out := make([]llm.Message, 0, len(all))
	for _, m := range all {
		to := llm.Message{Text: m.Content, Raw: m.Raw, Provider: m.Provider}
		whole := func(what string, ref *events.Ref, dst *[]byte) error {
			if ref == nil {
				return nil
			}
			b, err := blobs.Get(ctx, *ref)
			if err != nil {
				return fmt.Errorf("%s of a message: %w", what, err)
			}
			*dst = b
			return nil
		}
		raw, text := []byte(to.Raw), []byte(to.Text)
		if err := whole("raw form", m.RawRef, &raw); err != nil {
			return nil, err
		}
		if err := whole("content", m.ContentRef, &text); err != nil {
			return nil, err
		}
		to.Raw, to.Text = raw, string(text)
		switch m.Role {
		case events.RoleUser:
			to.Role = llm.User
		case events.RoleAssistant:
			to.Role = llm.Assistant
		case events.RoleTool:
			to.Role = llm.ToolResults
		default:
			return nil, fmt.Errorf("message of an unknown role %.20q", m.Role)
		}
		for _, c := range m.Calls {
			input := []byte(c.Input)
			if err := whole("arguments", c.InputRef, &input); err != nil {
				return nil, err
			}
			to.Calls = append(to.Calls, llm.Call{ID: c.ID, Name: c.Name, Input: input})
		}
		for _, r := range m.Results {
			to.Results = append(to.Results, llm.Result{CallID: r.CallID, Name: r.Name, Output: r.Output, Failed: r.Failed})
		}
		out = append(out, to)
	}
	return out, nil
}

// MaxTold is about how much of a history a model with a large context window is told, in bytes: a hundred thousand tokens.
const MaxTold = 400 << 10

// Told returns what a model is told of a history: the newest part, and as many before it as fit into a number of bytes. A
// newest part that takes more than that alone is told without its oldest rounds of calls. Where something is left out, the
// first message says so. It is the same for the same reference and limit.
func Told(ctx context.Context, blobs Getter, newest *events.Ref, limit int64) ([]llm.Message, error) {
	var size int64
	asked := false
	parts, more, err := Load(ctx, blobs, newest, func(p events.Part) bool {
		size += Size(p)
		first := !asked // the newest is told whatever its size
		asked = true
		return !first && size > limit
	})
	if err != nil {
		return nil, err
	}
	kept, less := Messages(parts), false
	if len(parts) == 1 {
		kept, less = crop(kept, limit)
	}
	all, err := ToModel(ctx, blobs, kept)
	switch {
	case err != nil || len(all) == 0:
	case less:
		all[0].Text = strings.Join([]string{"(Some of what was done and said in the session is left out: it is too long.)", all[0].Text}, "\n\n")
	case more:
		all[0].Text = strings.Join([]string{"(What was said before this in the session is left out: it is too long.)", all[0].Text}, "\n\n")
	}
	return all, err
}
