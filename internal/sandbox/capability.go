package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNotEnforced means that a sandbox was asked for a wall or a limit that this machine cannot enforce in that mode. It
// is a kind of ErrUnavailable.
var ErrNotEnforced = fmt.Errorf("%w: cannot be enforced", ErrUnavailable)

// Limits bound all that runs in a sandbox, together. 0 means no limit.
type Limits struct {
	// CPU in processors: 0.5 is half the time of one.
	CPU float64
	// Memory and Disk in bytes. Disk counts the workspace and the sandbox's own HOME and TMPDIR.
	Memory, Disk int64
	// PIDs is the most processes and threads at once.
	PIDs int
	// Isolation is how long the sandbox may live from Open on; then its commands end with ErrLifetime.
	Wall time.Duration
}

// Isolation is something that a sandbox can keep a command from, or bound.
type Isolation string

// The walls, in the order of Walls.
const (
	// WallFiles closes what is neither the workspace nor named: it cannot be read or written.
	IsolationFiles Isolation = "files"
	// WallDenied hides Config.Denied below a path that is shown.
	IsolationDenied Isolation = "denied"
	// WallNetwork closes the network, that of the machine itself included.
	IsolationNetwork Isolation = "network"
	// WallStation keeps commands whose network is open from connecting to what listens for the station: its NATS
	// server, metrics, health and whatever else the process of its sandboxes listens on.
	IsolationStation Isolation = "station"
	// WallProcesses hides the processes of others, and keeps them from being read, traced and signalled.
	IsolationProcesses Isolation = "processes"
	// WallPrivileges takes away capabilities and the means to get any.
	IsolationPrivileges Isolation = "privileges"
	// WallSyscalls closes system calls that tools do not need.
	IsolationSyscalls Isolation = "syscalls"
	// WallMetadata keeps modes and times of files outside from being changed.
	IsolationMetadata Isolation = "metadata"
	// WallPrograms closes the files of Config.DenyPrograms, so that no name, copy or wrapper runs them.
	IsolationPrograms Isolation = "programs"
	// WallTree ends every process with the command that started it, also one that hides.
	IsolationTree Isolation = "tree"
	// The limits.
	LimitCPU      Isolation = "cpu"
	LimitMemory   Isolation = "memory"
	LimitDisk     Isolation = "disk"
	LimitPIDs     Isolation = "pids"
	LimitWallTime Isolation = "wall"
)

// Isolations returns all walls and limits, in the order of reports.
func Isolations() []Isolation {
	return []Isolation{IsolationFiles, IsolationDenied, IsolationNetwork, IsolationStation, IsolationProcesses,
		IsolationPrivileges, IsolationSyscalls, IsolationMetadata, IsolationPrograms, IsolationTree,
		LimitCPU, LimitMemory, LimitDisk, LimitPIDs, LimitWallTime}
}

// Capability is what a backend can do about one wall.
type Capability struct {
	Isolation Isolation `json:"wall"`
	Enforced  bool      `json:"enforced"`
	// How it is enforced, or Why it is not.
	How string `json:"how,omitempty"`
	Why string `json:"why,omitempty"`
}

// Report lists all walls: how each is enforced or, where nothing is said of that, why not. What is known of single
// walls takes the place of both.
func Report(how, why map[Isolation]string, known ...Capability) []Capability {
	var list []Capability
	for _, isolation := range Isolations() {
		c := Capability{Isolation: isolation, Enforced: how[isolation] != "", How: how[isolation]}
		if !c.Enforced {
			c.Why = why[isolation]
		}
		if i := slices.IndexFunc(known, func(k Capability) bool { return k.Isolation == isolation }); i >= 0 {
			c = known[i]
		}
		list = append(list, c)
	}
	return list
}

// Can returns what a report tells of a wall; one that is not in it is not enforced.
func Can(has []Capability, isolation Isolation) Capability {
	for _, c := range has {
		if c.Isolation == isolation {
			return c
		}
	}
	return Capability{Isolation: isolation, Why: "the backend does not report it"}
}

// Require returns ErrNotEnforced for each limit, denied path and closed network that a Config asks for and a backend
// with these capabilities does not enforce. What is not in the report is not enforced.
func Require(mode Mode, cfg Config, has []Capability) error {
	l := cfg.Limits
	var missing []error
	for _, ask := range []struct {
		isolation Isolation
		asked     bool
	}{
		{IsolationNetwork, !cfg.Network}, {IsolationStation, cfg.Network && cfg.Closed != nil},
		{IsolationDenied, len(cfg.Denied) > 0}, {IsolationPrograms, len(cfg.DenyPrograms) > 0}, {LimitCPU, l.CPU > 0},
		{LimitMemory, l.Memory > 0},
		{LimitDisk, l.Disk > 0}, {LimitPIDs, l.PIDs > 0}, {LimitWallTime, l.Wall > 0},
	} {
		if !ask.asked {
			continue
		}
		if c := Can(has, ask.isolation); !c.Enforced {
			missing = append(missing, fmt.Errorf("sandbox mode %s: %w: %s: %s", mode, ErrNotEnforced, ask.isolation, c.Why))
		}
	}
	return errors.Join(missing...)
}

// Check returns an error for limits that no sandbox can have.
func (l Limits) Check() error {
	switch {
	case l.CPU < 0 || l.Memory < 0 || l.Disk < 0 || l.PIDs < 0 || l.Wall < 0:
		return errors.New("a limit cannot be negative: leave it out for no limit")
	case l.CPU > 0 && l.CPU < 0.01:
		return errors.New("a cpu limit must be at least 0.01")
	case l.Memory > 0 && l.Memory < 4<<20:
		return errors.New("a memory limit must be at least 4 MiB: no program starts with less")
	case l.PIDs > 0 && l.PIDs < 4:
		return errors.New("a limit of processes must be at least 4: no program starts with less")
	}
	return nil
}
