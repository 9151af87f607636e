package service

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
)

// HostKeys begin the keys of toolrunners that run, in the bucket of working trees, which only toolrunners write.
const HostKeys = "host."

// RunnerHost is what a toolrunner says of itself to the others.
type RunnerHost struct {
	Machine string    `json:"machine"`
	Mode    string    `json:"mode"`
	Since   time.Time `json:"since"`
	// SessionLogs is true for a version whose planners have the log of a session for the truth; before, its row was.
	SessionLogs bool `json:"session_logs,omitempty"`
	// WorkspaceLogs is the same for the logs of workspaces, which toolrunners write.
	WorkspaceLogs bool `json:"workspace_logs,omitempty"`
}

// Name is that of the machine, for people.
func (h RunnerHost) Name() string {
	name, _, _ := strings.Cut(h.Machine, " ")
	return fmt.Sprintf("%q (%s)", name, h.Mode)
}

// OlderRunner names a toolrunner whose lease lives and of which knows is false, "" for none: one of a version that has
// rows for the truth. hosts and leases are nil where the station has one process.
func OlderRunner(ctx context.Context, hosts kernel.KV, leases kernel.Leases,
	knows func(RunnerHost) bool) (string, error) {
	if hosts == nil || leases == nil {
		return "", nil
	}
	keys, err := hosts.Keys(ctx, HostKeys)
	if err != nil {
		return "", fmt.Errorf("list the toolrunners: %w", err)
	}
	for _, key := range keys {
		b, err := hosts.Get(ctx, key)
		var h RunnerHost
		if err != nil || json.Unmarshal(b, &h) == nil && knows(h) {
			continue // one that is just gone, or of this version
		}
		instance := strings.TrimPrefix(key, HostKeys)
		alive, err := leases.Alive(ctx, instance)
		if err != nil {
			return "", fmt.Errorf("lease of %s: %w", instance, err)
		}
		if alive {
			return instance + " on " + h.Name(), nil
		}
	}
	return "", nil
}
