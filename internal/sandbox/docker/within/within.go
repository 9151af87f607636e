// Package within is what works inside of the containers of sandboxes: a helper that is there instead of an init and a
// shell, and the words that it and the toolrunner exchange.
//
// Promises: a program whose main calls Main first can be put into a container, whatever image that has, as its own
// helper; it has to be a static one. As the first process (RoleInit) the helper looks at the mounts before anything
// else runs, says what it found, opens the sandbox's way out where there is one, and lives until its standard input
// ends: a toolrunner that is lost takes its container with it. As the parent of a command (RoleExec) it starts the
// command behind a system call filter, passes input, output and signals on, and does not say that it ended before every
// process that the command started is gone; where its standard input ends first, it ends all of them. Neither has a way
// to more than its container.
package within

// Flag is the first argument of the helper. Programs that do not know it refuse it as a flag.
const Flag = "-inspan-within"

// The helper's parts, as second argument.
const (
	RoleInit = "init"
	RoleExec = "exec"
)

// Path is where the helper is in a container; DoorDir holds the socket DoorName over which the way out is handed out.
const (
	Path       = "/.inspan-helper"
	EgressDir  = "/.inspan-door"
	EgressName = "s"
)

// Setup is the first thing the first process is told.
type Setup struct {
	// Checks are looked at in this order; the first that fails is told.
	Checks []Check `json:"checks,omitempty"`
	// Users is proc_pid_uid_map(5) of the toolrunner: where the engine gives users other numbers, files that commands
	// make would belong to others.
	Users string `json:"users,omitempty"`
	// Door is true where the way out is to be opened.
	Egress bool `json:"door,omitempty"`
}

// Check says what has to be mounted at a path, once: the file of that device and number. Every mount that was asked for
// has a Check, so that one which a link led elsewhere is missed at its own place.
type Check struct {
	// Path is absolute. From Root on, which is Path or above it, no link is followed.
	Path string `json:"path"`
	Root string `json:"root"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	// ReadOnly wants a mount that cannot be written.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Ready answers Setup; Fault says what is not as it should be.
type Ready struct {
	Fault string `json:"fault,omitempty"`
}

// Start is the first thing the parent of a command is told.
type Start struct {
	Args []string          `json:"args"`
	Env  map[string]string `json:"env"`
	Dir  string            `json:"dir"`
	// Stdin is true where input comes; One is true where standard error goes where standard output does.
	Stdin bool `json:"stdin,omitempty"`
	One   bool `json:"one,omitempty"`
}

// Begun answers Start; Fault says why the command could not begin.
type Begun struct {
	PID   int    `json:"pid,omitempty"`
	Fault string `json:"fault,omitempty"`
}

// Question asks the parent of a command: for the list of its processes where PID is 0, else to signal one of them, and
// with Wait to see that it is gone.
type Question struct {
	ID     int  `json:"id"`
	PID    int  `json:"pid,omitempty"`
	Signal int  `json:"signal,omitempty"`
	Wait   bool `json:"wait,omitempty"`
}

// Answer is that of the Question with the same ID. Found is true where it is a process of the command, Gone where it
// was seen to be gone.
type Answer struct {
	ID     int       `json:"id"`
	Found  bool      `json:"found,omitempty"`
	Exited bool      `json:"gone,omitempty"`
	List   []Process `json:"list,omitempty"`
}

// Process is one of a command's, by its numbers inside.
type Process struct {
	PID      int      `json:"pid"`
	Parent   int      `json:"parent"`
	Args     []string `json:"args"`
	UserMS   int64    `json:"user_ms"`
	SystemMS int64    `json:"system_ms"`
	RSS      int64    `json:"rss"`
}

// End is how a command ended and what it and all it started used.
type End struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Killed is true where it was ended because that was asked for.
	Killed   bool  `json:"killed,omitempty"`
	WallUS   int64 `json:"wall_us"`
	UserUS   int64 `json:"user_us"`
	SystemUS int64 `json:"system_us"`
	// MaxRSS in bytes is that of the largest process.
	MaxRSS     int64 `json:"max_rss"`
	ReadBytes  int64 `json:"read_bytes"`
	WriteBytes int64 `json:"write_bytes"`
	// Left is true where processes could not be ended.
	Left bool `json:"left,omitempty"`
}
