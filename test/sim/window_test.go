package sim

import (
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// smallWindow is the context window of agents whose steps are compacted, in tokens; longTurns the turns of such a step.
const (
	smallWindow = 1000
	longTurns   = 7
)

// chatter is what the model of a small window says beside its calls: about a hundred tokens.
var chatter = strings.Repeat("and so it goes on and on; ", 16)

// usage of a request: four bytes a token.
func usage(req llm.Request, a llm.Answer) llm.Usage {
	n := len(req.System)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Input)
	}
	for _, m := range req.Messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Input)
		}
		for _, r := range m.Results {
			n += len(r.Output)
		}
	}
	return llm.Usage{Input: n/4 + 1, Output: len(a.Text)/4 + 5}
}

// asked holds LOOP-9 and PLUS-2 of every request: each result stands behind its call, each call before its result.
func (a *audit) asked(req llm.Request) {
	var open []llm.Call
	for i, m := range req.Messages {
		if (len(open) > 0) != (len(m.Results) > 0) || len(open) != len(m.Results) {
			a.breaks("run %s step %s turn %d: message %d of the request has %d results, %d calls stand before it", req.Meta.Run, req.Meta.Step, req.Meta.Turn, i, len(m.Results), len(open))
			return
		}
		for j, r := range m.Results {
			if r.CallID != open[j].ID {
				a.breaks("run %s step %s turn %d: message %d answers call %s with the result of %s", req.Meta.Run, req.Meta.Step, req.Meta.Turn, i, open[j].ID, r.CallID)
			}
		}
		open = m.Calls
	}
	if len(open) > 0 {
		a.breaks("run %s step %s turn %d: the request ends with %d calls", req.Meta.Run, req.Meta.Step, req.Meta.Turn, len(open))
	}
}

// compacted holds that a summary stands for turns that were taken, and for more than the one before.
func (a *audit) compacted(l *ledger, d *events.HistoryCompactedData) string {
	a.w.tale.counts["compactions"]++
	if d.Through <= l.through[d.Step] || d.Through > l.turns || d.Summary == "" {
		return fmt.Sprintf("a summary through turn %d of %d, after one through %d", d.Through, l.turns, l.through[d.Step])
	}
	l.through[d.Step] = d.Through
	return ""
}
