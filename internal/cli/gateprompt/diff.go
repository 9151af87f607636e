package gateprompt

import (
	"encoding/json"
	"strings"

	"github.com/inspan/inspan/internal/patch"
	"github.com/inspan/inspan/pkg/events"
)

// folded is how many lines of a diff are shown before it is asked for.
const folded = 12

// Proposed is what a call at a gate would change by its arguments alone: the texts that it replaces, or the patch that
// it applies. It is empty where the arguments do not say.
func Proposed(g *events.GateOpenedData) string {
	type replacement struct {
		Old string `json:"old_string"`
		New string `json:"new_string"`
	}
	var args struct {
		replacement
		Path  string        `json:"path"`
		Patch string        `json:"patch"`
		Edits []replacement `json:"edits"`
	}
	if json.Unmarshal((&Prompt{Gate: g}).input(), &args) != nil {
		return ""
	}
	if args.Patch != "" {
		return args.Patch
	}
	var b strings.Builder
	for _, r := range append(args.Edits, args.replacement) {
		if args.Path != "" && r.Old != r.New {
			b.WriteString(patch.Unified(args.Path, r.Old+"\n", r.New+"\n"))
		}
	}
	return b.String()
}
