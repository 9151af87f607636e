package hooks

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
)

// doomRow is how often in a row the same call may be asked for before a person is asked.
const doomRow = 3

// Builtin returns the registry of the hooks that every service brings along (GUARD-4). log is told what the hook audit
// is asked; nil tells no one.
//
//	audit       writes a line to the log of the service for each question, without its texts, and continues
//	doom-loop   interrupts where a step asks for the same call for the third time in a row
//	read-only   blocks every call of a tool that is not of class read
func Builtin(log func(q hook.Question)) map[string]Func {
	return map[string]Func{
		"audit": func(_ context.Context, q hook.Question) (string, string, error) {
			if log != nil {
				log(q)
			}
			return events.HookContinue, "", nil
		},
		"doom-loop": doomLoop,
		"read-only": readOnly,
	}
}

func doomLoop(_ context.Context, q hook.Question) (string, string, error) {
	if q.Call == nil || q.Call.Row < doomRow {
		return events.HookContinue, "", nil
	}
	return events.HookInterrupt, fmt.Sprintf("the same call of %s was requested %d times in a row", q.Call.Tool,
		q.Call.Row), nil
}

func readOnly(_ context.Context, q hook.Question) (string, string, error) {
	if q.Call == nil || q.Call.Effect == "read" {
		return events.HookContinue, "", nil
	}
	return events.HookBlock, fmt.Sprintf("only tools that read are permitted, and %s is of class %s", q.Call.Tool,
		q.Call.Effect), nil
}
