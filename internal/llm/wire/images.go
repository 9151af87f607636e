package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/llm"
)

// Lift moves the images of results into the user's message after them, for providers whose results are text alone. The
// message says which calls they are of; where the user speaks there anyway, they stand before what he says. It takes
// what Settle returned and changes nothing in it.
func Lift(history []llm.Message) []llm.Message {
	out := make([]llm.Message, 0, len(history))
	for i := 0; i < len(history); i++ {
		m := history[i]
		if m.Role != llm.ToolResults || !slices.ContainsFunc(m.Results, func(r llm.Result) bool {
			return len(r.Images) > 0
		}) {
			out = append(out, m)
			continue
		}
		next := llm.Message{Role: llm.User}
		var names []string
		m.Results = slices.Clone(m.Results)
		for j, r := range m.Results {
			for range r.Images {
				names = append(names, fmt.Sprintf("%s (%s)", r.Name, r.CallID))
			}
			next.Images = append(next.Images, r.Images...)
			m.Results[j].Images = nil
		}
		next.Text = "The images of the results above, in this order: " + strings.Join(names, ", ") + "."
		if i+1 < len(history) && history[i+1].Role == llm.User {
			i++
			next.Images = append(next.Images, history[i].Images...)
			next.Text = strings.TrimSuffix(next.Text+"\n\n"+history[i].Text, "\n\n")
		}
		out = append(out, m, next)
	}
	return out
}
