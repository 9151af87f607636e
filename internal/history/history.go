// Package history makes conversations out of runs, keeps them, and makes model messages out of them again.
//
// Promises: what a run said is in its history as its model was shown it, with large things by reference. A history is a
// chain of parts by content, so one reference stands for all of it and nothing in it can change. Every history that is
// loaded can be sent to a model: it begins with a user's message, each call has its result, and an input that ended
// without an answer says so.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MaxParts bounds how far a history is followed back: more inputs than a session takes in years.
const MaxParts = 10_000

// Of returns what was said in a run, oldest first: for each step that began, what it was asked and what came of it.
func Of(s run.State) ([]events.Message, error) {
	if s.Created == nil {
		return nil, errors.New("a run that was not created has no history")
	}
	var all []events.Message
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			if st.Harness() {
				continue // no one said anything there
			}
			talk := prompt.Conversation(s, st.ID)
			if len(talk) == 0 {
				continue
			}
			asked, err := question(s, st)
			if err != nil {
				return nil, err
			}
			all = withTurns(append(all, asked), s, st, 0)
			for i, e := range talk {
				one := exchange(s, st, e)
				if all = append(all, one...); len(one) == 1 && e.Note != "" && i < len(talk)-1 {
					all = withAnswers(all, s, st, e.Turn.Number, e.Note, true)
				}
				all = withTurns(all, s, st, e.Turn.Number)
			}
			all = closed(all, s, st)
		}
	}
	if len(all) == 0 {
		all = closed([]events.Message{{Role: events.RoleUser, Content: s.Created.Task, At: s.CreatedAt,
			Metadata: events.MessageMeta{Run: s.HarnessID, Agent: s.AgentName}}}, s, nil)
	}
	return all, nil
}

// question is the first message of a step, as the model was shown it.
func question(s run.State, st *run.Step) (events.Message, error) {
	agent, _ := s.Agent(st.AssignedAgent)
	text, err := agentfile.Render(agent, agentfile.RenderInput{Task: prompt.Brief(s, st, s.Created.Task),
		Variables: s.Created.Variables,
		Station:   s.Identity.Station, Run: s.HarnessID, Step: st.ID, StepDescription: st.Description,
		Workspace: s.Created.Workspace})
	if err != nil {
		return events.Message{}, fmt.Errorf("history of run %s: %w", s.HarnessID, err)
	}
	return events.Message{Role: events.RoleUser, Content: text.User, At: s.CreatedAt, Metadata: meta(s, st, 0)}, nil
}

func meta(s run.State, st *run.Step, turn int) events.MessageMeta {
	return events.MessageMeta{Run: s.HarnessID, Agent: st.AssignedAgent, Step: st.ID, Turn: turn}
}

// withTurns adds what people said to a step after a turn.
func withTurns(all []events.Message, s run.State, st *run.Step, turn int) []events.Message {
	for _, text := range s.MessagesAfter(st.ID, turn) {
		all = withAnswers(all, s, st, turn, text, false)
	}
	return all
}

// withAnswers adds what the model was told after a turn, in one message with what stands before it on the user's side.
func withAnswers(all []events.Message, s run.State, st *run.Step, turn int, text string, note bool) []events.Message {
	if last := &all[len(all)-1]; last.Role == events.RoleUser {
		last.Content = strings.TrimSpace(last.Content + "\n\n" + text)
		return all
	}
	m := events.Message{Role: events.RoleUser, Content: text, At: s.UpdatedAt, Metadata: meta(s, st, turn)}
	m.Metadata.Note = note
	return append(all, m)
}

// exchange is one turn and the results of its calls; nothing where the model said nothing at all.
func exchange(s run.State, st *run.Step, e prompt.Exchange) []events.Message {
	t := e.Turn
	if strings.TrimSpace(t.Text) == "" && t.TextRef == nil && len(t.Calls) == 0 {
		return nil
	}
	m := events.Message{Role: events.RoleAssistant, Content: t.Text, ContentRef: t.TextRef, Raw: t.Raw, RawRef: t.RawRef,
		Provider: t.Provider, At: t.At, Metadata: meta(s, st, t.Number)}
	m.Metadata.Model = t.Model
	if t.Interrupted && t.TextRef == nil {
		m.Content += "\n\n(A person interrupted this answer here.)"
	}
	for _, c := range t.Calls {
		m.Calls = append(m.Calls, events.MessageCall{ID: c.ProviderID, Name: c.Tool, Input: c.Input, InputRef: c.InputRef})
	}
	if len(e.Results) == 0 {
		return []events.Message{m}
	}
	results := events.Message{Role: events.RoleTool, At: t.At, Metadata: meta(s, st, t.Number)}
	for _, r := range e.Results {
		r.Hide("it was shown when the call was made")
		results.Results = append(results.Results, events.MessageResult{CallID: r.ProviderID, Name: r.Tool, Output: r.Output,
			Failed: r.Failed})
	}
	return []events.Message{m, results}
}

// closed ends what a step said with an answer: where the model gave none, a note says how it ended.
func closed(all []events.Message, s run.State, st *run.Step) []events.Message {
	last := all[len(all)-1]
	if last.Role == events.RoleAssistant {
		return all
	}
	why := "it did not end"
	if s.Result != nil {
		why = s.Result.FinishReason
	}
	note := events.Message{Role: events.RoleAssistant, Content: "(This input ended without an answer: " + why + ".)",
		At:       s.UpdatedAt,
		Metadata: events.MessageMeta{Run: s.HarnessID, Agent: s.AgentName, Note: true}}
	if st != nil {
		note.Metadata.Step, note.Metadata.Agent = st.ID, st.AssignedAgent
	}
	return append(all, note)
}

// Put stores a part. Putting it again changes nothing.
func Put(ctx context.Context, blobs kernel.Blobs, p events.Part) (events.Ref, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return events.Ref{}, fmt.Errorf("encode history: %w", err)
	}
	ref, err := blobs.Put(ctx, events.RefHistory, b)
	if err != nil {
		return events.Ref{}, fmt.Errorf("store history: %w", err)
	}
	return ref, nil
}

// Getter gets objects by content.
type Getter interface {
	Get(ctx context.Context, ref events.Ref) ([]byte, error)
}

// Load returns the parts of a history, oldest first, each run's once. Where enough returns true for a part, those
// before it are left out: more is then true. enough may be nil; it is asked about the newest part first.
func Load(ctx context.Context, blobs Getter, newest *events.Ref,
	enough func(events.Part) bool) (parts []events.Part, more bool, err error) {
	seen := map[string]bool{}
	for ref := newest; ref != nil; {
		if len(parts) >= MaxParts {
			return nil, false, fmt.Errorf("the history has more than %d parts: clear it with inspan session clear", MaxParts)
		}
		b, err := blobs.Get(ctx, *ref)
		if err != nil {
			return nil, false, fmt.Errorf("history: %w", err)
		}
		var p events.Part
		if err := json.Unmarshal(b, &p); err != nil {
			return nil, false, fmt.Errorf("history %s: %w", ref.SHA256, err)
		}
		ref = p.Prev
		if p.Run != "" && seen[p.Run] {
			continue
		}
		seen[p.Run] = true
		if enough != nil && enough(p) {
			more = true
			break
		}
		parts = append(parts, p)
	}
	sort.SliceStable(parts, func(i, j int) bool { return parts[i].Fence < parts[j].Fence })
	return parts, more, nil
}

// Messages returns the messages of parts, in their order.
func Messages(parts []events.Part) []events.Message {
	all := []events.Message{}
	for _, p := range parts {
		all = append(all, p.Messages...)
	}
	return all
}

// Size is about how many bytes of a model's context a part takes.
func Size(p events.Part) (n int64) {
	for _, m := range p.Messages {
		if n += int64(len(m.Content)); m.ContentRef != nil {
			n += m.ContentRef.Size
		}
		for _, c := range m.Calls {
			if n += int64(len(c.Name) + len(c.Input)); c.InputRef != nil {
				n += c.InputRef.Size
			}
		}
		for _, r := range m.Results {
			n += int64(len(r.Output))
		}
	}
	return n
}

// CheckGiven returns what is wrong with a history that a task brings: it must be one that every provider takes. It may
// refer to no objects and hold nothing in a provider's own form: who gives tasks may not read what others stored, nor
// speak in a provider's name.
func CheckGiven(all []events.Message) error {
	if len(all) == 0 {
		return nil
	}
	if len(all) > events.MaxGiven {
		return fmt.Errorf("history: %d messages, the limit is %d", len(all), events.MaxGiven)
	}
	want := []string{events.RoleUser}
	var open []events.MessageCall
	for i, m := range all {
		if !slices.Contains(want, m.Role) {
			return fmt.Errorf("history: message %d is of %.20q, want %s", i+1, m.Role, strings.Join(want, " or "))
		}
		if m.ContentRef != nil || m.RawRef != nil || m.Raw != nil || m.Provider != "" {
			return fmt.Errorf("history: message %d refers to stored things or is in a provider's form: send role, content, tool_calls and tool_results", i+1)
		}
		if err := checkMessage(m, open); err != nil {
			return fmt.Errorf("history: message %d: %w", i+1, err)
		}
		open = m.Calls
		switch {
		case m.Role == events.RoleAssistant && len(m.Calls) > 0:
			want = []string{events.RoleTool}
		case m.Role == events.RoleAssistant:
			want = []string{events.RoleUser}
		case m.Role == events.RoleTool:
			want = []string{events.RoleAssistant, events.RoleUser} // a person may have put in a word
		default:
			want = []string{events.RoleAssistant}
		}
	}
	if last := all[len(all)-1]; last.Role != events.RoleAssistant || len(last.Calls) > 0 {
		return errors.New("history: the last message must be an answer of the assistant without calls: the task follows it")
	}
	return nil
}

func checkMessage(m events.Message, open []events.MessageCall) error {
	switch {
	case m.Role == events.RoleUser && (strings.TrimSpace(m.Content) == "" || len(m.Calls)+len(m.Results) > 0):
		return errors.New("a user's message has content and nothing else")
	case m.Role == events.RoleAssistant && (strings.TrimSpace(m.Content) == "" && len(m.Calls) == 0 || len(m.Results) > 0):
		return errors.New("an assistant's message has content or tool_calls")
	case m.Role == events.RoleTool && (m.Content != "" || len(m.Calls) > 0 || len(m.Results) != len(open)):
		return errors.New("a tool's message has one of tool_results for each of the tool_calls before it, in their order")
	}
	ids := map[string]bool{}
	for _, c := range m.Calls {
		if c.ID == "" || c.Name == "" || ids[c.ID] || c.InputRef != nil || !json.Valid(c.Input) {
			return errors.New("each of tool_calls has an id of its own, a name and its input as JSON")
		}
		ids[c.ID] = true
	}
	for i, r := range m.Results {
		if r.CallID != open[i].ID || r.Name != open[i].Name {
			return fmt.Errorf("result %d is of the call %.40q of %.40q, want %.40q of %.40q", i+1, r.CallID, r.Name, open[i].ID,
				open[i].Name)
		}
	}
	return nil
}
