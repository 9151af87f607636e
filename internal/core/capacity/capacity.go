// Package capacity computes the disks and stations that a load needs. It is arithmetic on figures that test/scale
// measures: pure, and linear in runs, steps and bytes.
package capacity

import "math"

// Figures are what a run costs. Measured holds those of this version.
type Figures struct {
	// Run is what an ended run takes on disk beside its steps, in bytes: events of its beginning and end, its row in the
	// index, its snapshot and its archive. Step is what a step adds: a turn of the model with one call of a tool.
	Run, Step float64
	// Content is how many bytes a byte of text takes that a model or a tool wrote in a step.
	Content float64
	// LogShare is the part of that which is in the log, the rest being in buckets.
	LogShare float64
	// Parked is what a run takes on disk that waits at its first gate, and ParkedRSS what it takes of the memory of a
	// station in one process that has started with it.
	Parked, ParkedRSS float64
}

// Load is what a station or several have to carry.
type Load struct {
	RunsPerDay, StepsPerRun float64
	// Content is the text of a step in bytes: what the model and the tool wrote.
	Content float64
	// Days is how long ended runs stay in the log, Parked how many runs wait at gates at a time.
	Days, Parked float64
	// Replicas is the number of copies of each stream.
	Replicas int
	// Peak is the busiest time relative to the mean; 1 is an even day.
	Peak float64
	// StationSteps is how many steps a second one station carries, as test/bench measures it on the machine.
	StationSteps float64
}

// Need is what a load needs.
type Need struct {
	// BytesPerRun is the disk of one ended run, BytesPerDay of the runs of a day; both of one copy.
	BytesPerRun int64 `json:"bytes_per_run"`
	BytesPerDay int64 `json:"bytes_per_day"`
	// Log and Buckets are what is stored after the retention, of one copy.
	Log     int64 `json:"log_bytes"`
	Buckets int64 `json:"bucket_bytes"`
	// Disk is that of each server: one copy, Headroom times.
	Disk int64 `json:"disk_bytes_per_server"`
	// Memory is that of parked runs, in all stations together.
	Memory int64 `json:"parked_memory_bytes"`
	// StepsPerSecond are those of the busiest time, Stations how many carry them; each has Servers servers.
	StepsPerSecond float64 `json:"peak_steps_per_second"`
	Stations       int     `json:"stations"`
	Servers        int     `json:"servers_per_station"`
}

// Headroom is the disk of a server relative to what is stored: making room writes a second copy of what stays, and a
// log is warned of when it is at four fifths.
const Headroom = 2

// Disk is what one ended run takes.
func (f Figures) Disk(steps, content float64) float64 {
	return f.Run + steps*(f.Step+f.Content*content)
}

// Of computes what a load needs. Disk is that of a server of the only station, or of each where the load is divided
// evenly between stations.
func (f Figures) Of(l Load) Need {
	run := f.Disk(l.StepsPerRun, l.Content)
	ended, parked := run*l.RunsPerDay*l.Days, f.Parked*l.Parked
	n := Need{BytesPerRun: int64(run), BytesPerDay: int64(run * l.RunsPerDay), Memory: int64(f.ParkedRSS * l.Parked),
		StepsPerSecond: l.RunsPerDay * l.StepsPerRun / (24 * 60 * 60) * l.Peak, Stations: 1, Servers: max(1, l.Replicas)}
	if l.StationSteps > 0 {
		n.Stations = max(1, int(math.Ceil(n.StepsPerSecond/l.StationSteps)))
	}
	n.Log = int64((ended + parked) * f.LogShare)
	n.Buckets = int64(ended+parked) - n.Log
	n.Disk = (n.Log + n.Buckets) * Headroom / int64(n.Stations)
	return n
}
