package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Retried is a run that goes on with a failed one.
type Retried struct {
	// Run goes on with the run Of after its event At.
	Run string `json:"run"`
	Of  string `json:"of"`
	At  uint64 `json:"at"`
	// SameWorkspace is true where it works in the directory of that run, with the files as they are now. Files says what
	// there was of them when the retry was made; zero where an earlier call has made it.
	SameWorkspace bool               `json:"same_workspace"`
	Files         events.FilesAnswer `json:"files"`
	// Existing is true where an earlier call has made it.
	Existing bool `json:"existing"`
	// Tokens, Cost and ToolCalls are what it begins with as used. Cost is in millionths of a dollar.
	Tokens    int             `json:"tokens"`
	Cost      events.MicroUSD `json:"cost_micro_usd"`
	ToolCalls int             `json:"tool_calls"`
}

// Retry names a failed run that is to be gone on with.
type Retry struct {
	Run, By string
	// WithoutFiles goes on in a new, empty directory where the files of the run are lost. Its agent is informed.
	WithoutFiles bool
}

// Retry goes on with a failed run (PLUS-13): it forks the run after its last event before anything failed, and returns
// the fork once it exists. A failed run has one retry, whose id follows from its own, so that two calls make one; the
// retry of a run whose retry has failed goes on with that one. A run that has not failed, that would fail for the same
// reason at once, or whose files are lost, is a *RefusedError whose hint says what to do.
func (rs Runs) Retry(ctx context.Context, r Retry) (Retried, error) {
	for of := r.Run; ; {
		s, err := rs.c.State(ctx, of)
		if err != nil {
			return Retried{}, err
		}
		if err := retryable(s); err != nil {
			return Retried{}, err
		}
		id := RetryOf(of)
		next, err := rs.c.State(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			return rs.retry(ctx, s, id, r)
		case err != nil:
			return Retried{}, err
		case next.Created.ForkOf == nil || next.Created.ForkOf.Run != of:
			return Retried{}, &RefusedError{Code: "duplicate_id", Reason: "there is another run " + id,
				Hint: "inspan fork " + of + " --at SEQ goes on under an id of your own"}
		case next.Status != events.Failed:
			_, sound, err := rs.soundEvent(ctx, s)
			return retriedAs(next, sound, true), err
		}
		of = id
	}
}

// retry forks a failed run under that id. Somebody else may do so at the same time.
func (rs Runs) retry(ctx context.Context, s run.State, id string, r Retry) (Retried, error) {
	at, sound, err := rs.soundEvent(ctx, s)
	if err != nil {
		return Retried{}, err
	}
	files, same, err := rs.files(ctx, s, sound, r.WithoutFiles)
	if err != nil {
		return Retried{}, err
	}
	_, err = rs.c.Fork(ctx, Fork{Run: s.HarnessID, At: at, ID: id, By: r.By, SameWorkspace: same})
	refused, ok := errors.AsType[*RefusedError](err)
	existing := ok && refused.Code == "duplicate_id"
	if err != nil && !existing {
		return Retried{}, err
	}
	next, err := rs.c.State(ctx, id)
	if err != nil {
		return Retried{}, err
	}
	done := retriedAs(next, sound, existing)
	if !existing {
		done.Files = files
	}
	return done, nil
}

func retriedAs(s, sound run.State, existing bool) Retried {
	from := s.Created.ForkOf
	return Retried{Run: s.HarnessID, Of: from.Run, At: from.Sequence, SameWorkspace: from.SameWorkspace,
		Existing: existing,
		Tokens:   sound.Tokens.Total() + int(sound.Lost.Tokens), Cost: sound.Cost + sound.Lost.Cost,
		ToolCalls: sound.TotalToolCalls}
}

// spent are the finish reasons that a retry meets again at once, as it begins with what the run has used, and what to
// do instead. A message to the agent gives its step all of its turns anew.
var spent = map[string]string{
	events.FinishTokens: "inspan run starts the task again with another --budget-tokens",
	events.FinishCost:   "inspan run starts the task again with another --budget-usd",
}

// retryable returns why a run cannot be gone on with, or nil.
func retryable(s run.State) error {
	refuse := func(reason, hint string, args ...any) error {
		return &RefusedError{Code: "bad_retry", Reason: fmt.Sprintf(reason, args...), Hint: hint}
	}
	id := s.HarnessID
	if s.Pruned != nil {
		return refuse("the events of run %s %s", "inspan run starts the task again", id, s.Pruned.Why())
	}
	switch s.Status {
	case events.Created, events.Running:
		return refuse("run %s is %s", "inspan why "+id+" says what it waits for, inspan stop "+id+" ends it", id, s.Status)
	case events.Paused:
		return refuse("run %s is paused", "inspan resume "+id+" goes on with it", id)
	case events.Completed:
		return refuse("run %s is completed", "inspan fork "+id+` --say "..." goes on with another instruction`, id)
	case events.Failed:
	}
	for _, st := range reasons(s) {
		if hint := spent[st]; hint != "" {
			return refuse("run %s failed because its budget is used up (%s), and a retry begins with what it used", hint, id, st)
		}
		if st == events.FinishMaxSteps || st == events.FinishDoomLoop || st == events.FinishContext {
			return refuse("run %s failed because of %s, which a retry meets again at once",
				"inspan fork "+id+` --say "..." goes on with an instruction`, id, st)
		}
	}
	return nil
}

// reasons are the finish reasons of a failed run and of its failed steps.
func reasons(s run.State) []string {
	all := []string{s.Result.FinishReason}
	if s.Plan != nil {
		for _, st := range s.Plan.Steps {
			if st.Status == events.StepIsFailed && st.RunReason != "" {
				all = append(all, st.RunReason)
			}
		}
	}
	return all
}

// keepsWorkspace reports whether a retry can work in the directory of its run: that of a session belongs to whoever
// holds the session, and an ephemeral one is gone.
func keepsWorkspace(s run.State) bool {
	ephemeral := s.Created.Git != nil && s.Created.Git.Workspace == events.WorkspaceEphemeral
	return s.Created.Session == "" && !ephemeral
}

// soundEvent is the sequence of the last event of a failed run before a step, or the run itself, failed, and the state
// there.
func (rs Runs) soundEvent(ctx context.Context, failed run.State) (at uint64, s run.State, err error) {
	for item, err := range rs.c.Events(ctx, failed.HarnessID, 0) {
		if err != nil {
			return 0, s, err
		}
		switch item.Payload.(type) {
		case *events.StepFailedData, *events.RunFailedData:
			return s.Sequence, s, nil
		}
		s = item.State
	}
	return 0, s, &NotFoundError{What: "run", ID: failed.HarnessID}
}

// files finds out what a retry has of the files of its run, and whether it works in the same directory. Files that are
// lost refuse it, unless the run has made no tool call or that is accepted.
func (rs Runs) files(ctx context.Context, failed, sound run.State, without bool) (a events.FilesAnswer, same bool,
	err error) {
	lost := func(reason string) error {
		if without || failed.ToolCallHistory.Len() == 0 {
			return nil
		}
		return &RefusedError{Code: "files_lost", Reason: reason,
			Hint: "inspan retry " + failed.HarnessID + " --without-files goes on in a new directory, and the agent is informed"}
	}
	if !keepsWorkspace(failed) {
		a.Files = events.FilesGone
		reason := "run " + failed.HarnessID + " worked in an ephemeral workspace, which went with it"
		switch {
		case failed.Created.Session != "":
			reason = "run " + failed.HarnessID + " worked in the files of session " + failed.Created.Session +
				", which its next run works in"
		case failed.Created.Git != nil:
			reason += ": what was not committed is lost"
		}
		return a, false, lost(reason)
	}
	if a, err = rs.look(ctx, events.FilesQuestion{Run: failed.HarnessID, Workspace: failed.Created.Workspace,
		Since: sound.UpdatedAt}); err != nil {
		return a, false, err
	}
	switch a.Files {
	case events.FilesThere, events.FilesSaved, events.FilesNone:
		return a, true, nil
	case events.FilesGone:
		return a, false, lost("the workspace of run " + failed.HarnessID + " was removed after the run ended")
	}
	return a, true, lost("no toolrunner says whether the files of run " + failed.HarnessID +
		" are still there: start one of this version, inspan doctor shows which run")
}

// look asks what there is of the files of a run; the answer is zero where no one answers.
func (rs Runs) look(ctx context.Context, q events.FilesQuestion) (a events.FilesAnswer, err error) {
	if st, ok := rs.c.st.(interface {
		Files(ctx context.Context, q events.FilesQuestion) (events.FilesAnswer, error)
	}); ok {
		return st.Files(ctx, q)
	}
	if rs.c.conn == nil {
		return a, nil
	}
	question, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, filesWait)
	defer cancel()
	answer, err := rs.c.conn.Services().Ask(ctx, events.Toolrunner, question)
	if err != nil || json.Unmarshal(answer, &a) != nil {
		return events.FilesAnswer{}, nil //nolint:nilerr // no toolrunner runs, or this user may not ask it
	}
	return a, nil
}

// filesWait is how long a toolrunner is waited for that is asked for the files of a run.
const filesWait = 10 * time.Second

// maxID is the length of an id.
const maxID = 64

// RetryOf is the id of the retry of a run: RUN-retry for RUN, RUN-retry-2 for that one, and so on.
func RetryOf(runID string) string {
	base, n := runID, 1
	if from, number, ok := cutLast(runID, "-retry"); ok {
		if base, n = from, 2; number != "" {
			if last, err := strconv.Atoi(strings.TrimPrefix(number, "-")); err == nil && last > 1 && last < 1<<20 {
				n = last + 1
			} else {
				base, n = runID, 1
			}
		}
	}
	id := base + "-retry"
	if n > 1 {
		id += "-" + strconv.Itoa(n)
	}
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(runID))
		id = "run-" + hex.EncodeToString(sum[:12]) + "-retry"
	}
	return id
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
