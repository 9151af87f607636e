package service

import (
	"fmt"
	"strings"
	"time"
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
}

// Name is that of the machine, for people.
func (h RunnerHost) Name() string {
	name, _, _ := strings.Cut(h.Machine, " ")
	return fmt.Sprintf("%q (%s)", name, h.Mode)
}
