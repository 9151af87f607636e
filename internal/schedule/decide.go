// Package schedule is the aggregate of schedules: at which times a run begins, what becomes of times that were missed,
// and of times at which an earlier run is under way.
//
// Promises: a schedule is its log, and the row that others read is a view of it. A decision is a function of a state
// and a time; it returns the state with what it decided noted in Changes, by the same rule that folds the stored event,
// and every prefix of the changes is a legal history. No time fires twice: a firing is recorded, with the id of its
// run, before the run exists, and the number of a firing is never used again, also where the schedule is removed and
// made again in between. Each time of an active schedule is either in schedule.fired or in schedule.skipped. A schedule
// that never fires is refused.
package schedule

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// MissedAfter is how long after its time a firing counts as missed.
const MissedAfter = time.Minute

// defaultMissed is the MissedLimit of a spec without one.
const defaultMissed = 10

// ID derives the id of the run of a firing.
type ID func(schedule string, number int) string

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Due decides about the times up to now. Firings whose runs have ended must have been closed before.
func Due(s State, now time.Time, id ID) (State, error) {
	if s.Status != events.ScheduleIsActive {
		return s, nil
	}
	t, err := TimingOf(s.Spec, s.Anchor)
	if err != nil {
		return s, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	t = t.of(s.ID)
	most := 1
	if s.Spec.Missed == events.MissedAll {
		most = cmp.Or(s.Spec.MissedLimit, defaultMissed)
	}
	p := t.passedSince(s.Handled, now, most)
	if len(p.last) == 0 {
		return s, nil
	}
	stands := 0
	if p.older > 0 {
		// With missed "one" the newest time stands for those before it.
		if s.Spec.Missed == events.MissedSkip || s.Spec.Missed == events.MissedAll || busy(s) != "" {
			s = skip(s, p.first, p.end, p.older, events.SkippedMissed, now)
		} else {
			stands = p.older
		}
	}
	for _, at := range p.last {
		switch why := busy(s); {
		case s.Spec.Missed == events.MissedSkip && now.Sub(t.Fires(at)) > MissedAfter:
			s = skip(s, at, at, 1, events.SkippedMissed, now)
		case why != "":
			s = skip(s, at, at, 1, why, now)
		default:
			s = s.then(&events.ScheduleFiredData{Event: "schedule_fired", Number: s.Fired + 1, Run: id(s.ID, s.Fired+1), At: at,
				Missed: stands}, now)
		}
	}
	return s, nil
}

func skip(s State, first, last time.Time, count int, reason string, now time.Time) State {
	return s.then(&events.ScheduleSkippedData{Event: "schedule_skipped", First: first, Last: last, Count: count,
		Reason: reason}, now)
}

// busy is the reason why a time does not fire now, or "".
func busy(s State) string {
	switch {
	case len(s.Open) > 0 && (s.Spec.Overlap == "" || s.Spec.Overlap == events.OverlapSkip):
		return events.SkippedOverlap
	case len(s.Open) > 1 && s.Spec.Overlap == events.OverlapReplace:
		return events.SkippedOverlap // the one that waits for the end of the first stands for this time, too
	case len(s.Open) >= events.MaxOpenFirings:
		return events.SkippedFull
	}
	return ""
}

// Ready returns the firings whose runs may exist, in order: with overlap "queue" and "replace" only the oldest one, and
// of a paused schedule only those that a person asked for.
func (s State) Ready() []events.Firing {
	all := s.Open
	if s.Spec.Overlap.InTurn() {
		all = all[:min(1, len(all))]
	}
	if s.Status == events.ScheduleIsPaused {
		all = slices.DeleteFunc(slices.Clone(all), func(f events.Firing) bool { return !f.Manual })
	}
	return all
}

// Replaced is the firing whose run has to be stopped, because a later one is to begin in its place; ok is false where
// there is none.
func (s State) Replaced() (f, by events.Firing, ok bool) {
	if s.Spec.Overlap != events.OverlapReplace || len(s.Open) < 2 {
		return f, by, false
	}
	return s.Open[0], s.Open[1], true
}

// Wake is when a schedule is to be looked at again; ok is false where only a control or the end of a run changes it.
func Wake(s State) (at time.Time, ok bool) {
	t, err := TimingOf(s.Spec, s.Anchor)
	if s.Status != events.ScheduleIsActive || err != nil {
		return at, false
	}
	at = t.of(s.ID).Fires(t.Next(s.Handled))
	return at, !at.IsZero()
}

// Close records that the run of a firing ended; it changes nothing where that is recorded.
func Close(s State, number int, success bool, reason string, now time.Time) State {
	f, open := s.Firing(number)
	if !open {
		return s
	}
	return s.then(&events.ScheduleEndedData{Event: "schedule_ended", Number: number, Run: f.Run, Success: success,
		FinishReason: reason}, now)
}

// Refuse records that the task of a firing was refused; it changes nothing where the firing is not open.
func Refuse(s State, number int, why Refused, now time.Time) State {
	f, open := s.Firing(number)
	if !open {
		return s
	}
	return s.then(&events.ScheduleRefusedData{Event: "schedule_refused", Number: number, Run: f.Run, Code: why.Code,
		Reason: clip(why.Reason), Hint: clip(why.Hint)}, now)
}

// maxText bounds what is kept of a refusal, in bytes.
const maxText = 1 << 10

func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "")
}

// Actions of a schedule's control subject.
const (
	Set    = "set"
	Pause  = "pause"
	Resume = "resume"
	Run    = "run"
	Remove = "remove"
)

// Actions lists them.
func Actions() []string { return []string{Set, Pause, Resume, Run, Remove} }

// Wish is a control with where it came from: Input is its position in the input stream.
type Wish struct {
	events.ScheduleControl
	Schedule string
	Input    uint64
}

// Steer carries out a control, or returns a *Refused. Firings whose runs have ended must have been closed before.
func Steer(s State, w Wish, now time.Time, id ID) (State, error) {
	if s.Took(w.Input) {
		return s, nil
	}
	by := events.ScheduleBy{Input: w.Input, By: w.By, Reason: w.Reason}
	if !s.Exists() && w.Action != Set {
		return s, &Refused{"unknown_schedule", fmt.Sprintf("there is no schedule %q", w.Schedule),
			"inspan schedule list lists those of the station"}
	}
	if w.Action == Pause && s.Status == events.ScheduleIsPaused || w.Action == Resume &&
		s.Status == events.ScheduleIsActive {
		return s, &Refused{"bad_move", fmt.Sprintf("schedule %q is %s", s.ID, s.Status), "nothing was changed"}
	}
	switch w.Action {
	case Set:
		return set(s, w, by, now)
	case Pause:
		return s.then(&events.SchedulePausedData{Event: "schedule_paused", ScheduleBy: by}, now), nil
	case Resume:
		return s.then(&events.ScheduleResumedData{Event: "schedule_resumed", ScheduleBy: by}, now), nil
	case Remove:
		return s.then(&events.ScheduleRemovedData{Event: "schedule_removed", ScheduleBy: by}, now), nil
	}
	if why := busy(s); why != "" {
		return s, &Refused{"schedule_busy",
			fmt.Sprintf("run %s of schedule %s has not ended", s.Open[len(s.Open)-1].Run, s.ID),
			"wait until it ends, stop it with inspan stop, or let runs overlap: inspan schedule add " + s.ID + " --overlap allow"}
	}
	return s.then(&events.ScheduleFiredData{Event: "schedule_fired", Number: s.Fired + 1, Run: id(s.ID, s.Fired+1),
		At:     now,
		Manual: &by}, now), nil
}

// NeverFires says why a schedule has no time that is still to come.
func NeverFires(s events.ScheduleSpec) error {
	if s.Until != nil {
		return fmt.Errorf("it never fires: it has no time that is still to come and before its end, %s",
			s.Until.UTC().Format(time.RFC3339))
	}
	return errors.New("it never fires: all its times have passed")
}

func set(s State, w Wish, by events.ScheduleBy, now time.Time) (State, error) {
	if s.Exists() && w.New {
		return s, &Refused{"schedule_exists", fmt.Sprintf("there is a schedule %q", s.ID),
			"change it with --replace, or give the new one another name"}
	}
	t, err := TimingOf(*w.Spec, now)
	if err == nil && t.Next(now).IsZero() {
		err = NeverFires(*w.Spec)
	}
	if err != nil {
		return s, &Refused{"bad_schedule", fmt.Sprintf("schedule %q: %v", w.Schedule, err),
			"inspan schedule add --help has examples"}
	}
	if s.Exists() {
		return s.then(&events.ScheduleChangedData{Event: "schedule_changed", Spec: *w.Spec, ScheduleBy: by}, now), nil
	}
	return s.then(&events.ScheduleCreatedData{Event: "schedule_created", Schedule: w.Schedule, Spec: *w.Spec,
		ScheduleBy: by}, now), nil
}

// Check returns what is wrong with a control, in words for who sent it.
func Check(c events.ScheduleControl) error {
	switch {
	case !slices.Contains(Actions(), c.Action):
		return fmt.Errorf("unknown action %.80q: the actions are %s", c.Action, strings.Join(Actions(), ", "))
	case (c.Action == Set) != (c.Spec != nil):
		return fmt.Errorf("a spec goes with %s, and it needs one", Set)
	case c.Action == Set:
		return CheckSpec(*c.Spec)
	}
	return nil
}

// CheckSpec returns what is wrong with a spec, whatever the time.
func CheckSpec(s events.ScheduleSpec) error {
	if _, err := TimingOf(s, time.Unix(0, 0)); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	switch {
	case err != nil:
		return fmt.Errorf("encode the schedule: %w", err)
	case len(b) > events.MaxSchedule:
		return fmt.Errorf("the schedule has %d bytes, the limit is %d: put long instructions in the agent's file", len(b),
			events.MaxSchedule)
	case s.Digest != "" && !isDigest(s.Digest):
		return errors.New("the digest is no SHA-256 in hex")
	case s.TimeZone != "" && s.Cron == "":
		return errors.New("timezone goes with cron")
	case !slices.Contains([]events.MissedPolicy{"", events.MissedSkip, events.MissedOne, events.MissedAll}, s.Missed):
		return fmt.Errorf("missed %.40q: want skip, one or all", s.Missed)
	case !slices.Contains([]events.OverlapPolicy{"", events.OverlapSkip, events.OverlapQueue, events.OverlapReplace,
		events.OverlapAllow}, s.Overlap):
		return fmt.Errorf("overlap %.40q: want skip, queue, replace or allow", s.Overlap)
	case s.MissedLimit < 0 || s.MissedLimit > events.MaxMissedLimit:
		return fmt.Errorf("missed_limit is %d, want 1 to %d", s.MissedLimit, events.MaxMissedLimit)
	case s.MissedLimit > 0 && s.Missed != events.MissedAll:
		return errors.New("missed_limit goes with missed: all")
	case s.Missed == events.MissedAll && s.Overlap != events.OverlapQueue && s.Overlap != events.OverlapAllow:
		return errors.New("missed: all needs overlap: queue or allow, or only the first of the missed times would fire")
	}
	return errors.Join(checkMode(s), checkTask(s.Task))
}

func isDigest(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size
}

func checkMode(s events.ScheduleSpec) error {
	unattended := s.Mode == events.ModeDream || s.Mode == events.ModeOvernight
	switch {
	case !unattended && s.Mode != "" && s.Mode != events.ModeNormal:
		return fmt.Errorf("mode %.40q: want normal, dream or overnight", s.Mode)
	case !unattended && s.CheckpointInterval != "":
		return errors.New("checkpoint_interval goes with mode: dream or overnight")
	case !unattended && len(s.Phases) > 0:
		return errors.New("phases go with mode: overnight or dream")
	case s.Mode == events.ModeOvernight && len(s.Phases) == 0:
		return errors.New("mode: overnight needs phases")
	}
	if s.CheckpointInterval != "" {
		if d, err := time.ParseDuration(s.CheckpointInterval); err != nil || d < time.Second || d > 24*time.Hour {
			return fmt.Errorf("checkpoint_interval %.40q: want a length of time from 1s to 24h, such as 5m",
				s.CheckpointInterval)
		}
	}
	return events.CheckPhases(s.Phases)
}

func checkTask(t events.ScheduledTask) error {
	for what, id := range map[string]string{"agent": t.Agent, "session": t.Session} {
		if id != "" {
			if err := events.CheckID(what, id); err != nil {
				return err
			}
		}
	}
	switch {
	case t.Agent == "":
		return errors.New("the task names no agent")
	case strings.TrimSpace(t.Task) == "":
		return errors.New("the task is empty")
	case strings.ContainsRune(t.Task, 0):
		return errors.New("the task contains a NUL character")
	case t.Session == "" && t.SessionMode != "":
		return errors.New("session_mode goes with session_id")
	case t.MaxTokens < 0:
		return errors.New("max_tokens is below zero")
	case len(t.Variables) > events.MaxVariables:
		return fmt.Errorf("%d variables, the limit is %d", len(t.Variables), events.MaxVariables)
	}
	if t.MaxUSD != "" {
		if n, err := strconv.ParseFloat(t.MaxUSD, 64); err != nil || !(n > 0 && n < 1e9) {
			return fmt.Errorf("max_usd %.40q: want a number above zero", t.MaxUSD)
		}
	}
	if t.Timeout != "" {
		if d, err := time.ParseDuration(t.Timeout); err != nil || d < 0 {
			return fmt.Errorf("timeout %.40q is not a duration such as 30m", t.Timeout)
		}
	}
	return nil
}

// TaskOf is the task that a firing dispatches.
func TaskOf(s State, f events.Firing) events.Task {
	d := s.Spec.Task
	t := events.Task{ID: f.Run, Agent: d.Agent, Task: d.Task, Session: d.Session, SessionMode: d.SessionMode,
		Model:     d.Model,
		Variables: d.Variables, Repo: d.Repo, Ref: d.Ref, Branch: d.Branch, Timeout: d.Timeout, By: s.By}
	t.Mode, t.Plan = s.Spec.Mode, events.PhasePlan(d.Task, s.Spec.Phases)
	if every, err := time.ParseDuration(s.Spec.CheckpointInterval); err == nil {
		ms := every.Milliseconds()
		t.CheckpointIntervalMS = &ms
	}
	if d.Autonomy != 0 {
		t.Autonomy = &d.Autonomy
	}
	if d.MaxTokens != 0 {
		t.MaxTokens = &d.MaxTokens
	}
	if d.MaxUSD != "" {
		usd := json.Number(d.MaxUSD)
		t.MaxUSD = &usd
	}
	return t
}
