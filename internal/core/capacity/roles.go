package capacity

import "math"

// CPU is what a step takes of one core, in seconds.
type CPU struct {
	// Every is what each process of a role takes for a step, whoever has it: it receives all events of its station and
	// holds the states of its runs. Shared is what only the process takes that has the step.
	Every, Shared float64
}

// Of is the CPU of a step in each of so many processes.
func (c CPU) Of(processes int) float64 { return c.Every + c.Shared/float64(processes) }

// Costs are what a step costs each role: a turn of the model with one call, while many runs are under way.
type Costs struct {
	// Of the planner, Shared is that of a run: it has work at the beginning and at the end of one.
	Planner, Gatekeeper, Executor, Toolrunner, Persister CPU
	// Server is the CPU of each server.
	Server float64
	// Turn is how many seconds longer than the model an executor is busy with a turn, Call how many seconds longer than
	// the tool a toolrunner is with a call.
	Turn, Call float64
}

// Busy is the share of its time that a process is to be busy at the busiest time, at most: what waits for a process
// doubles between half and three quarters.
const Busy = 0.7

// Work is what the roles of one station have to carry.
type Work struct {
	// StepsPerSecond are those of the busiest time, StepsPerRun those of a run.
	StepsPerSecond, StepsPerRun float64
	// Model is how many seconds a turn of the model takes, Tool a call.
	Model, Tool float64
	// Turns and Calls are how many an executor and a toolrunner have at a time (INSPAN_WORKERS).
	Turns, Calls int
}

// RoleNeed is what a load needs of one role.
type RoleNeed struct {
	Role string `json:"role"`
	// StepsPerSecond is what one process with one core carries, and Limit what limits it: cpu, or workers.
	StepsPerSecond float64 `json:"steps_per_second_of_one"`
	Limit          string  `json:"limit"`
	// Most is what no number of processes exceeds, each busy for Busy of its time: above it a second station is needed; 0
	// for no such limit.
	Most float64 `json:"steps_per_second_at_most"`
	// Processes is how many carry the busiest time, each busy for at most Busy of it; 0 where no number does.
	Processes int `json:"processes"`
	// Cores is the CPU that all of them use at the busiest time.
	Cores float64 `json:"cores"`
	// UnderWay is how many turns or calls there are at a time; 0 for a role that waits for nothing.
	UnderWay float64 `json:"under_way"`
}

// Limits of a process.
const (
	ByCPU     = "cpu"
	ByWorkers = "workers"
)

// Roles computes what a load needs of each role, in the order in which a run comes to them. A run of steps with one
// call has one turn more than steps.
func (c Costs) Roles(w Work) []RoleNeed {
	steps := math.Max(1, w.StepsPerRun)
	planner := CPU{c.Planner.Every, c.Planner.Shared / steps}
	return []RoleNeed{
		need("planner", planner, 0, 0, w.StepsPerSecond),
		need("gatekeeper", c.Gatekeeper, 0, 0, w.StepsPerSecond),
		need("executor", c.Executor, (steps+1)/steps*(w.Model+c.Turn), w.Turns, w.StepsPerSecond),
		need("toolrunner", c.Toolrunner, w.Tool+c.Call, w.Calls, w.StepsPerSecond),
		need("persister", c.Persister, 0, 0, w.StepsPerSecond),
	}
}

// ServerCores is the CPU that a load takes of each server, in cores.
func (c Costs) ServerCores(w Work) float64 { return c.Server * w.StepsPerSecond }

// need is that of a role of whose workers, where it waits for something, a step has one for so long.
func need(role string, cpu CPU, held float64, workers int, perSecond float64) RoleNeed {
	n := RoleNeed{Role: role, StepsPerSecond: 1 / cpu.Of(1), Limit: ByCPU, UnderWay: perSecond * held}
	processes := 1.0
	if workers > 0 && held > 0 {
		by := float64(workers) / held
		processes = perSecond / (Busy * by)
		if by < n.StepsPerSecond {
			n.StepsPerSecond, n.Limit = by, ByWorkers
		}
	}
	if cpu.Every > 0 {
		n.Most = Busy / cpu.Every
	}
	// k processes are busy for perSecond * (Every + Shared/k) of their time each.
	left := Busy - perSecond*cpu.Every
	if left < 0 || left == 0 && cpu.Shared > 0 {
		return n
	}
	if cpu.Shared > 0 {
		processes = max(processes, perSecond*cpu.Shared/left)
	}
	n.Processes = max(1, int(math.Ceil(processes)))
	n.Cores = perSecond * cpu.Of(n.Processes) * float64(n.Processes)
	return n
}
