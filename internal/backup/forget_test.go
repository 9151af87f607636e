package backup_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// also appends events of another aggregate to the log of a station.
func also(t *testing.T, st *jet.Station, aggregate, id string, by events.Service, payloads ...events.Payload) {
	t.Helper()
	state, err := st.LogState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []backup.Message
	prev := ""
	for i, p := range payloads {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		f := events.Event{SpecVersion: "1.0", ID: strings.Repeat("0", 31) + string(rune('1'+i)), Source: events.Source("s1", by),
			Type: p.Kind().Type(), Subject: id, Aggregate: aggregate, ContentType: "application/json", Time: time.Now().UTC(),
			Identity: events.Identity{Station: "s1"}, Sequence: uint64(i + 1), PrevHash: prev, Data: data} //nolint:gosec // a count
		if aggregate == events.SessionAggregate {
			f.Session = id
		}
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		prev = events.HashOf(b)
		all = append(all, backup.Message{Seq: state.Last + uint64(i) + 1, Data: b, Subject: events.EventSubject("s1", aggregate, id, p.Kind())}) //nolint:gosec // a count
	}
	if err := st.AppendLog(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Add(-time.Hour)
	st := place(t)
	put := func(kind string, data []byte) events.Ref {
		t.Helper()
		r, err := st.Blobs().Put(t.Context(), kind, data)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	// talk is a conversation with one message that is an object of its own.
	talk := func(text string) (part, inside events.Ref) {
		inside = put("text", []byte(text))
		b, err := json.Marshal(events.Part{Messages: []events.Message{{Role: events.RoleUser, ContentRef: &inside}}})
		if err != nil {
			t.Fatal(err)
		}
		return put(events.RefHistory, b), inside
	}
	goes, goesInside := talk("what goes")
	stays, staysInside := talk("what stays")
	unnamed := put("output", []byte("stored before its event"))
	in := func(session, workspace string, history *events.Ref) func(*events.RunCreatedData) {
		return func(c *events.RunCreatedData) {
			c.Session, c.Workspace, c.History, c.By = session, workspace, history, "carol"
		}
	}
	runs := map[string]*runtest.Builder{
		"goes":  endedAt(began("goes", in("", "run/goes", &goes)), at),
		"stays": endedAt(began("stays", in("", "run/stays", &stays)), at),
		"one":   endedAt(began("one", in("", "workflow/w", nil)), at), "two": endedAt(began("two", in("", "workflow/w", nil)), at),
		"mine": endedAt(began("mine", in("ours", "session/ours", nil)), at),
		"ours": endedAt(began("ours", func(c *events.RunCreatedData) { in("ours", "session/ours", nil)(c); c.By = "bob" }), at),
	}
	logOf(t, st, runs)
	also(t, st, events.SessionAggregate, "ours", events.Planner, &events.SessionOpenedData{Event: "session_opened", Session: "ours"})
	also(t, st, events.SessionAggregate, "held", events.Planner, &events.SessionOpenedData{Event: "session_opened", Session: "held"},
		&events.SessionLockedData{Event: "session_locked", Run: "unborn", Agent: "worker", Fence: 1, Mode: events.Sequential})
	for _, path := range []string{"workflow/w", "run/goes"} {
		also(t, st, events.WorkspaceAggregate, events.WorkspaceID(path), events.Toolrunner,
			&events.WorkspaceClaimedData{Event: "workspace_claimed", Workspace: path, Owner: "tr", Run: "one", Fence: 1})
	}
	whole := filepath.Join(t.TempDir(), "whole")
	from, err := backup.Take(t.Context(), takeOf(st, whole))
	if err != nil {
		t.Fatal(err)
	}
	cfg := func(dir string, ids ...string) backup.ForgetConfig {
		return backup.ForgetConfig{Runs: ids, CopyConfig: backup.CopyConfig{From: whole, Dir: dir, Station: "s1", By: "anna", Version: "test"}}
	}

	t.Run("PLUS-19a a run goes with its workspace and what only it names, also inside of objects", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		done, err := backup.Forget(t.Context(), cfg(dir, "goes"))
		if err != nil || !slices.Equal(done.Runs, []string{"goes"}) || !slices.Equal(done.Workspaces, []string{"run/goes"}) || done.Unnamed != 1 {
			t.Fatalf("%+v %v", done, err)
		}
		m, err := backup.Check(t.Context(), dir, nil)
		if err != nil || m.Format != 3 || m.Log != from.Log-3 || m.Forgotten.Runs != 1 {
			t.Fatalf("%+v %v", m, err)
		}
		to := place(t)
		if err := backup.Fill(t.Context(), to, dir, m, nil); err != nil {
			t.Fatal(err)
		}
		for _, o := range []struct {
			ref   events.Ref
			there bool
		}{{goes, false}, {goesInside, false}, {unnamed, false}, {stays, true}, {staysInside, true}} {
			_, err := to.Blobs().Get(t.Context(), events.Ref{SHA256: o.ref.SHA256})
			if errors.Is(err, kernel.ErrNotFound) == o.there {
				t.Errorf("%s %.8s: %v", o.ref.Type, o.ref.SHA256, err)
			}
		}
		evs, _, err := to.Journal().Read(t.Context(), "goes", 0)
		if err != nil || len(evs) != 1 {
			t.Fatalf("%d events, %v", len(evs), err)
		}
		_, p, err := events.Read(evs[0].Bytes)
		d, ok := p.(*events.RunPrunedData)
		if err != nil || !ok || d.Forgotten == nil || d.Created.TaskDigest != "" || d.Created.Task != "" || d.Created.History != nil {
			t.Errorf("%+v %v", p, err)
		}
	})
	t.Run("PLUS-19a PLUS-19b what something that stays has a part of is refused, and nothing is written", func(t *testing.T) {
		for want, c := range map[string]backup.ForgetConfig{
			"(two)":                      cfg("", "one"),
			"--session ours":             cfg("", "mine"),
			"inspan session unlock held": {Sessions: []string{"held"}},
			"runs that were not named":   {People: []string{"bob"}},
			"run never":                  cfg("", "never"),
		} {
			dir := filepath.Join(t.TempDir(), "b")
			c.CopyConfig = cfg(dir).CopyConfig
			_, err := backup.Forget(t.Context(), c)
			if _, missing := os.Stat(dir); err == nil || !strings.Contains(err.Error(), want) || missing == nil {
				t.Errorf("%s: %v", want, err)
			}
		}
		dir := filepath.Join(t.TempDir(), "b")
		done, err := backup.Forget(t.Context(), cfg(dir, "one", "two"))
		if err != nil || !slices.Equal(done.Workspaces, []string{"workflow/w"}) {
			t.Errorf("%+v %v", done, err)
		}
	})
	t.Run("PLUS-19a an input of it that no service has judged is refused: it would begin it anew", func(t *testing.T) {
		busy := place(t)
		logOf(t, busy, map[string]*runtest.Builder{"goes": endedAt(began("goes", nil), at), "stays": endedAt(began("stays", nil), at)})
		in := backup.Message{Subject: "station.s1.task", Data: []byte(`{"id":"anew","fork_of":{"run_id":"goes","sequence":2}}`)}
		if err := busy.PutInput(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		c := cfg(filepath.Join(t.TempDir(), "b"), "goes")
		c.From = filepath.Join(t.TempDir(), "busy")
		if _, err := backup.Take(t.Context(), takeOf(busy, c.From)); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Forget(t.Context(), c); !errors.Is(err, backup.ErrBound) || !strings.Contains(err.Error(), "1 of the inputs") {
			t.Error(err)
		}
		c.Runs = []string{"stays"}
		if done, err := backup.Forget(t.Context(), c); err != nil || done.Copy.Inputs != 1 {
			t.Errorf("%+v %v", done, err)
		}
	})
	t.Run("PLUS-19b a session that is named goes with all of its runs", func(t *testing.T) {
		c := cfg(filepath.Join(t.TempDir(), "b"))
		c.Sessions = []string{"ours"}
		done, err := backup.Forget(t.Context(), c)
		if err != nil || !slices.Equal(done.Runs, []string{"mine", "ours"}) || done.Copy.Forgotten.Sessions != 1 {
			t.Errorf("%+v %v", done, err)
		}
	})
	t.Run("PLUS-19a interrupted at any time it is no backup, and what it left is not in the next one", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		for at := 1; ; at++ {
			ctx, end := context.WithCancelCause(t.Context())
			n, cut := 0, cfg(dir, "goes")
			cut.Progress = func(string, uint64, uint64) {
				if n++; n == at {
					end(errCut)
				}
			}
			_, err := backup.Forget(ctx, cut)
			end(nil)
			if err == nil {
				if at < 20 {
					t.Errorf("%d steps", at)
				}
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			if _, err := backup.Check(t.Context(), dir, nil); !errors.Is(err, backup.ErrNoBackup) {
				t.Fatalf("at %d: %v", at, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "incomplete")); err == nil { // as a copy of another request left it
				left := filepath.Join(dir, "objects", "ab")
				if err := errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(filepath.Join(left, "abcd"), []byte("what goes"), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "objects", "ab", "abcd")); err == nil {
			t.Error("an object of an interrupted copy is in the folder")
		}
	})
}
