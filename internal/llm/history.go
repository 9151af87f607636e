package llm

import "github.com/inspan/inspan/pkg/events"

// FromHistory makes messages of those of a history, which have nothing stored apart (history.Whole).
func FromHistory(all []events.Message) []Message {
	out := make([]Message, 0, len(all))
	for _, m := range all {
		to := Message{Role: Assistant, Text: m.Content, Raw: m.Raw, Provider: m.Provider}
		switch m.Role {
		case events.RoleUser:
			to.Role = User
		case events.RoleTool:
			to.Role = ToolResults
		}
		for _, c := range m.Calls {
			to.Calls = append(to.Calls, Call{ID: c.ID, Name: c.Name, Input: c.Input})
		}
		for _, r := range m.Results {
			to.Results = append(to.Results, Result{CallID: r.CallID, Name: r.Name, Output: r.Output, Failed: r.Failed})
		}
		out = append(out, to)
	}
	return out
}
