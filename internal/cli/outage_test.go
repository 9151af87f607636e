package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// status waits until the list shows a run with a status that a person asks for, and returns what it shows.
func (d *desk) status(id, status string) string {
	d.t.Helper()
	for ; ; pause(d.t) {
		for line := range strings.Lines(d.want(0, nil, "runs", "--status", status).out) {
			if strings.HasPrefix(strings.TrimSpace(line), id+" ") {
				return line
			}
		}
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := os.WriteFile(filepath.Join(d.dir, "scripts", "broken.yaml"), []byte("turns:\n  - when: {turn: 1}\n    error: {class: transient, message: overloaded}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.up()
	d.want(0, nil, "run", "broken", "wait", "--id", "away", "--detach")

	t.Run("PLUS-5 PLUS-13 why names the provider, the time of the next try and its number; the list says what is waited for", func(t *testing.T) {
		type answer struct {
			Waits []view.Wait `json:"waits"`
		}
		for ; ; pause(t) {
			a := decode[answer](t, d.want(0, nil, "why", "away", "--json").out)
			if len(a.Waits) != 1 || a.Waits[0].On != view.OnProvider || a.Waits[0].Try < 3 { // its wait is long enough to be seen
				continue
			}
			w := a.Waits[0]
			if w.Provider != "scripted" || w.Until.IsZero() || w.Since.IsZero() || !w.Since.Before(w.Until) || w.Step == "" {
				t.Errorf("%+v", w)
			}
			break
		}
		for !strings.Contains(d.want(0, nil, "why", "away").out, "waiting for provider scripted since") { // a request may be under way
			pause(t)
		}
		if line := d.status("away", "waiting"); !strings.Contains(line, "waiting: provider") {
			t.Errorf("%s", line)
		}
		d.status("away", "running")
	})
	t.Run("LIFE-2 a run that a person stopped is shown as stopped everywhere, and has failed in its events", func(t *testing.T) {
		d.want(0, words{"Stopped.", "is stopped"}, "stop", "away", "--reason", "enough")
		if line := d.status("away", "stopped"); !strings.Contains(line, "stopped") || strings.Contains(line, "failed") {
			t.Errorf("%s", line)
		}
		d.status("away", "failed")
		if s := d.end("away"); s.Status != events.Failed || s.Result.FinishReason != events.FinishStopped {
			t.Errorf("%+v", s.Result)
		}
		shown := d.want(0, words{"stopped", "enough"}, "inspect", "away").out
		logs := d.want(0, words{"run stopped by", "enough"}, "logs", "away").out
		for _, text := range []string{shown, logs, d.want(0, words{"stopped by"}, "why", "away").out} {
			if strings.Contains(text, "failed (stopped)") || strings.Contains(text, "run failed") {
				t.Errorf("it is shown as failed:\n%s", text)
			}
		}
	})
	t.Run("PLUS-13 a stopped run can be gone on with", func(t *testing.T) {
		d.want(0, words{"Retried away as away-retry"}, "retry", "away")
		d.want(4, words{"run away-retry is ", "inspan why away-retry"}, "retry", "away-retry")
		d.want(0, nil, "pause", "away-retry")
		d.want(4, words{"paused", "inspan resume away-retry"}, "retry", "away-retry")
		d.want(0, nil, "stop", "away-retry")
		if s := d.end("away-retry"); s.Status != events.Failed || s.Created.ForkOf.Run != "away" {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLUS-13 the page of a run that waits shows why", func(t *testing.T) {
		d.want(0, nil, "run", "broken", "wait", "--id", "shown", "--detach")
		for decode[run.State](t, d.want(0, nil, "inspect", "shown", "--json").out).Sequence < 6 {
			pause(t)
		}
		d.want(0, words{"overloaded"}, "logs", "shown")
		d.want(0, nil, "stop", "shown")
	})
}
