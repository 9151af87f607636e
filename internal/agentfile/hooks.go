package agentfile

import (
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
)

func hooksShape() shape {
	return list(mapping(map[string]field{
		"id": acts(text()), "on": acts(oneOf(events.OnRunStart, events.OnTurn, events.OnPreTool, events.OnPostTool,
			events.OnRunStop)),
		"tool": acts(textUpTo(maxPattern)), "command": acts(list(textUpTo(hook.MaxArg), hook.MaxArgs)),
		"subject": acts(text()),
		"builtin": acts(text()), "timeout": acts(duration(1e6, hook.MaxTimeout)),
	}), hook.Most)
}

// hooks are those of the file in its order, which is the order they are asked in. What cannot be asked is refused
// here: a hook that an author relies on and no one asks would be an open door.
func (p *parsing) hooks(list *node) []events.Hook {
	if list == nil {
		return nil
	}
	var out []events.Hook
	for _, n := range list.items {
		if n.kind != isMap {
			continue
		}
		h := events.Hook{ID: n.child("id").str(), On: n.child("on").str(), Tool: n.child("tool").str(),
			Command: n.child("command").words(),
			Subject: n.child("subject").str(), Builtin: n.child("builtin").str(), TimeoutMS: n.child("timeout").milliseconds()}
		for _, key := range []string{"id", "on"} {
			if n.child(key) == nil {
				p.fail(&Error{Code: CodeMissing, Line: n.line, Path: join(n.path, key), Message: "the key is missing",
					Expected: map[string]string{"id": "1 to 64 characters of A-Z a-z 0-9 _ and -",
						"on": "run_start, turn, pre_tool, post_tool or run_stop"}[key]})
			}
		}
		if len(p.errs) == 0 {
			if err := hook.Check(append(out[:len(out):len(out)], h), nil); err != nil {
				p.failAt(n, Error{Code: CodeValue, Message: err.Error()})
			}
		}
		out = append(out, h)
	}
	return out
}
