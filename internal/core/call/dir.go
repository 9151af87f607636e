package call

import "github.com/inspan/inspan/pkg/run"

// ShellDir finds the folder that the shells of a step begin in, in the events: so it holds after a restart and on any
// toolrunner. It is empty for the workspace itself.
func ShellDir(s run.State, step string) string {
	for _, r := range run.Backward(s.ToolCallHistory) {
		if r.Step == step && r.Dir != "" {
			return r.Dir
		}
	}
	if s.Created != nil && s.Created.Address != nil {
		return s.Created.Address.Dir
	}
	return ""
}
