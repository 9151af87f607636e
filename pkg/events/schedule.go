package events

import (
	"slices"
	"time"
)

// ScheduleStatus says whether a schedule fires.
type ScheduleStatus string

// A paused schedule does not fire until it is resumed. Of a removed one nothing is left but its name and the number of
// its last firing.
const (
	ScheduleIsActive  ScheduleStatus = "active"
	ScheduleIsPaused  ScheduleStatus = "paused"
	ScheduleIsRemoved ScheduleStatus = "removed"
)

// MissedPolicy says what becomes of the times that passed while the station was down.
type MissedPolicy string

// The policies for missed times: none of them fires, one firing stands for all, or each fires, at most MissedLimit.
const (
	MissedSkip MissedPolicy = "skip"
	MissedOne  MissedPolicy = "one"
	MissedAll  MissedPolicy = "all"
)

// OverlapPolicy says what happens at a time at which the run of an earlier firing has not ended.
type OverlapPolicy string

// The policies for overlaps: the time is skipped, its run begins when those before it have ended, the run before is
// stopped and its own begins when that has ended, or it begins beside them.
const (
	OverlapSkip    OverlapPolicy = "skip"
	OverlapQueue   OverlapPolicy = "queue"
	OverlapReplace OverlapPolicy = "replace"
	OverlapAllow   OverlapPolicy = "allow"
)

// InTurn reports whether a run begins only when those before it have ended.
func (p OverlapPolicy) InTurn() bool { return p == OverlapQueue || p == OverlapReplace }

// Limits of schedules.
const (
	// MaxSchedule is the most bytes of an encoded ScheduleSpec.
	MaxSchedule = 16 << 10
	// MaxOpenFirings is the most firings of a schedule whose runs have not ended.
	MaxOpenFirings = 32
	// MaxScheduleInputs bounds Schedule.Inputs: a message is delivered again within minutes.
	MaxScheduleInputs = 32
	// MaxMissedLimit is the most missed times that fire at once.
	MaxMissedLimit = 32
	// MaxPhases is the most phases of a schedule.
	MaxPhases = 32
)

// FiringPrefix is what the ids of the runs of firings begin with. No task of an outsider may have such an id.
const FiringPrefix = "firing_"

// ScheduleSpec is what a person says of a schedule: when it fires, and what begins then.
type ScheduleSpec struct {
	// One of the three. Cron is a cron expression of five fields, or @daily and its like. Every is a length of time such
	// as "15m"; times are counted from when the schedule was made. At is one time.
	Cron  string     `json:"cron,omitempty"`
	Every string     `json:"every,omitempty"`
	At    *time.Time `json:"at,omitempty"`
	// TimeZone that Cron is read in, such as "Europe/Berlin"; empty is UTC.
	TimeZone string `json:"timezone,omitempty"`
	// Until is a time after which it does not fire.
	Until *time.Time `json:"until,omitempty"`
	// Missed is "one" and Overlap is "skip" where they are empty. MissedLimit goes with Missed "all"; 0 is 10.
	Missed      MissedPolicy  `json:"missed,omitempty"`
	MissedLimit int           `json:"missed_limit,omitempty"`
	Overlap     OverlapPolicy `json:"overlap,omitempty"`
	// Jitter is a length of time such as "5m": each time fires up to so much later, always the same for that time.
	Jitter string `json:"jitter,omitempty"`
	// Mode of the runs. CheckpointInterval goes with dream and overnight; empty is 5m.
	Mode               RunMode `json:"mode,omitempty"`
	CheckpointInterval string  `json:"checkpoint_interval,omitempty"`
	// Phases are done one after the other, in dream and overnight.
	Phases []Phase `json:"phases,omitempty"`
	// Task is what each firing dispatches.
	Task ScheduledTask `json:"task"`
	// Digest is the SHA-256, in hex, of the file that all this was read from; empty for what was not read from a file.
	Digest string `json:"digest,omitempty"`
}

// ScheduledTask is the task of each firing. Its fields are those of Task.
type ScheduledTask struct {
	Agent       string            `json:"agent"`
	Task        string            `json:"task"`
	Session     string            `json:"session_id,omitempty"`
	SessionMode SessionMode       `json:"session_mode,omitempty"`
	Model       string            `json:"model,omitempty"`
	Variables   map[string]string `json:"variables,omitempty"`
	Repo        string            `json:"repo,omitempty"`
	Ref         string            `json:"ref,omitempty"`
	Branch      string            `json:"branch,omitempty"`
	Timeout     string            `json:"timeout,omitempty"`
	Autonomy    int               `json:"autonomy,omitempty"`
	MaxTokens   int64             `json:"max_tokens,omitempty"`
	// MaxUSD is a number in a text, such as "2.50".
	MaxUSD string `json:"max_usd,omitempty"`
}

// Firing is one firing whose run is not known to have ended.
type Firing struct {
	// Number counts the firings of the schedule from 1.
	Number int    `json:"number"`
	Run    string `json:"run"`
	// At is the time that it is for, FiredAt when it was recorded.
	At      time.Time `json:"at"`
	FiredAt time.Time `json:"fired_at"`
	// Manual is true where a person asked for it.
	Manual bool `json:"manual,omitempty"`
}

// FiringEnd is a firing and what became of it.
type FiringEnd struct {
	Firing
	// Outcome is "open", "completed", "failed" or "refused"; Reason says why.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
}

// Outcomes of a firing.
const (
	FiringIsOpen      = "open"
	FiringIsCompleted = "completed"
	FiringIsFailed    = "failed"
	FiringIsRefused   = "refused"
)

// FiringRef names a firing in the run that it began.
type FiringRef struct {
	Schedule string    `json:"schedule"`
	Number   int       `json:"number"`
	At       time.Time `json:"at"`
}

// Schedule is all that a station knows of a schedule. It is the fold of the schedule's log; the row in the bucket of
// sessions is a view of it.
type Schedule struct {
	ID     string         `json:"schedule"`
	Status ScheduleStatus `json:"status"`
	Spec   ScheduleSpec   `json:"spec"`
	// Anchor is what the times of Every are counted from. All times up to Handled have fired or were skipped.
	Anchor  time.Time `json:"anchor"`
	Handled time.Time `json:"handled"`
	// Fired is the number of the last firing, also of one before the schedule was removed and made again; Skipped counts
	// the times that did not fire.
	Fired   int `json:"fired"`
	Skipped int `json:"skipped"`
	// Open are the firings whose runs are not known to have ended, the oldest first.
	Open []Firing `json:"open,omitempty"`
	// Last is the last firing.
	Last      *FiringEnd `json:"last,omitempty"`
	By        string     `json:"by,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Log is the last event that a row includes.
	Log *LogHead `json:"log,omitempty"`
}

// Took reports whether the control at that position was carried out.
func (s Schedule) Took(input uint64) bool { return slices.Contains(s.Inputs, input) }

// ScheduleControl is what a user publishes to make, change or steer a schedule.
type ScheduleControl struct {
	// Action is set, pause, resume, run or remove.
	Action string `json:"action"`
	// Spec goes with set, which makes the schedule or changes it.
	Spec *ScheduleSpec `json:"spec,omitempty"`
	// New refuses set where the schedule exists.
	New bool `json:"new,omitempty"`
	// By is one line of at most MaxBy bytes, Reason a text of at most MaxReason.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}
