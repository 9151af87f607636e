package sandbox

// Away is implemented by backends whose commands run on another machine. They see a copy of the workspace and nothing
// else of this one: Config.ReadOnly, and Config.Writable outside of the workspace, name nothing there and are refused.
type Away interface{ Away() }

// Elsewhere is implemented by sandboxes whose commands see the workspace under another path than Workspace.
type Elsewhere interface{ Inside() string }

// Seen is the path under which the commands of a sandbox see its workspace.
func Seen(sb Sandbox) string {
	if e, ok := sb.(Elsewhere); ok {
		return e.Inside()
	}
	return sb.Workspace()
}
