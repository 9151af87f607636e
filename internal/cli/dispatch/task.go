package dispatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/events"
)

// variable is {{name}} in a task; a backslash before it keeps it as it is.
var variable = regexp.MustCompile(`\\?\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}`)

// filled puts variables into a task. Values are put in as they are and never looked at again. A variable that has no
// value is an error, because an agent would guess.
func filled(task string, variables map[string]string) (string, error) {
	var missing error
	out := variable.ReplaceAllStringFunc(task, func(found string) string {
		if rest, kept := strings.CutPrefix(found, `\`); kept {
			return rest
		}
		name := variable.FindStringSubmatch(found)[1]
		value, ok := variables[name]
		if !ok && missing == nil {
			known := slices.Sorted(maps.Keys(variables))
			hint := fmt.Sprintf(`give it with --var %s=VALUE, or write \{{%s}} if the task means these signs`, name, name)
			if near := didyoumean.Word(name, known); near != "" {
				hint = fmt.Sprintf("did you mean {{%s}}? Else %s", near, hint)
			}
			missing = app.Usage("the task has a variable {{%s}} without a value: %s", name, hint)
		}
		return value
	})
	return out, missing
}

// invocation reads --harness-config: the settings of the harness that a single run may differ in. Flags win over it.
func (f *RunFlags) invocation(task *events.Task) error {
	if f.harness == "" {
		return nil
	}
	if !json.Valid([]byte(f.harness)) {
		return app.Usage(`--harness-config is not JSON, such as '{"max_steps":20,"budget":{"tool_calls":50}}'`)
	}
	flat := strings.Join(strings.Fields(f.harness), " ") // JSON is YAML where it is in one line
	s, _, err := agentfile.ReadSettings("--harness-config", []byte("harness: "+flat+"\n"), nil)
	if err != nil {
		return app.Usage("%w", err)
	}
	for _, e := range s.Entries {
		number, _ := strconv.Atoi(e.Value) // checked by ReadSettings where it is one
		switch e.Key {
		case "harness.enabled":
			if err := enabled(task, e.Value); err != nil {
				return app.Usage("--harness-config: %w", err)
			}
		case "harness.max_steps":
			task.MaxSteps = &number
		case "harness.autonomy":
			task.Autonomy = &number
		case "harness.budget.tool_calls":
			task.MaxToolCalls = &number
		case "harness.timeout":
			task.Timeout = e.Value
		default:
			return app.Usage("--harness-config: %s cannot differ for a single run, only enabled, max_steps, autonomy, timeout and budget.tool_calls can: set it in the agent file", strings.TrimPrefix(e.Key, "harness."))
		}
	}
	return nil
}

// setPlacement says where the work happens and with whom.
func (f *RunFlags) setPlacement(task *events.Task) error {
	task.Repo, task.Ref, task.SessionMode, task.Stream = f.repo, f.ref, events.SessionMode(f.collaboration), f.stream
	task.Branch, task.Depth = f.branch, f.depth
	local := workcopy.IsPath(f.repo)
	if local {
		task.Repo = ""
	}
	switch {
	case local && (f.ref != "" || f.branch != "" || f.depth != 0):
		return app.Usage("--ref, --branch and --depth go with the address of a repository: the copy of a directory has what is checked out there")
	case (f.ref != "" || f.branch != "" || f.depth != 0) && f.repo == "":
		return app.Usage("--ref, --branch and --depth go with --repo")
	case f.depth < 0 || f.depth > events.MaxDepth:
		return app.Usage("--depth %d: want 0 to %d", f.depth, events.MaxDepth)
	case f.collaboration != "" && task.SessionMode != events.Sequential && task.SessionMode != events.Parallel:
		return app.Usage("--collaboration %q: want %s or %s", f.collaboration, events.Sequential, events.Parallel)
	case f.collaboration != "" && f.Session == "":
		return app.Usage("--collaboration goes with --session: it says how runs share one")
	}
	return nil
}
