package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// age makes a session look as if it had not been used for a while.
func (d *desk) age(id string, by time.Duration) {
	d.t.Helper()
	conn, err := d.station.As(d.t.Context(), events.Planner)
	if err != nil {
		d.t.Fatal(err)
	}
	st, err := conn.Station(d.station.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	d.shift(st, id, by)
}

func (d *desk) shift(st *jet.Station, id string, by time.Duration) {
	d.t.Helper()
	kv := st.KV(topology.SessionBucket)
	var e events.Session
	var b []byte
	for free := false; !free; { // a lock is given back right after the end of its run is said
		pause(d.t)
		var err error
		if b, err = kv.Get(d.t.Context(), "session."+id); err == nil {
			e = events.Session{}
			err = json.Unmarshal(b, &e)
		}
		if err != nil {
			d.t.Fatal(err)
		}
		free = len(e.Holders) == 0
	}
	var err error
	e.UsedAt = e.UsedAt.Add(-by)
	if b, err = json.Marshal(e); err == nil {
		err = kv.Put(d.t.Context(), "session."+id, b)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// inherit puts the row of a session there as versions wrote it that had no logs of sessions.
func (d *desk) inherit(id string, unused time.Duration) {
	d.t.Helper()
	conn, err := d.station.As(d.t.Context(), events.Planner)
	if err != nil {
		d.t.Fatal(err)
	}
	st, err := conn.Station(d.station.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	at := time.Now().Add(-unused).UTC()
	b, err := json.Marshal(events.Session{ID: id, Mode: events.Sequential, Status: events.SessionOpen, Born: 1, CreatedAt: at, UsedAt: at})
	if err == nil {
		err = st.KV(topology.SessionBucket).Put(d.t.Context(), "session."+id, b)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	d := newDesk(t).up()
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, args...)
	}
	work := filepath.Join(d.station.Workspace(), "session", "notes")
	t.Run("SESS-13 CLI-9 without sessions the list says how to make one, and an unknown one is not found", func(t *testing.T) {
		say(t, 0, []string{"--session NAME"}, "session", "list")
		say(t, 5, []string{"inspan session list"}, "session", "info", "nope")
		say(t, 4, []string{"unknown_session"}, "session", "unlock", "nope")
		say(t, 2, nil, "session", "info", "no/name")
		say(t, 4, []string{"mode"}, "session", "start", "odd", "--mode", "both")
	})
	t.Run("SESS-13ab SESS-6 SESS-2 OBS-14 a session is made with settings, and its runs have them and are found by it", func(t *testing.T) {
		say(t, 0, []string{"is open"}, "session", "start", "notes", "--branch", "fix/notes", "--system", "Be brief.")
		say(t, 0, []string{"The note is read."}, "run", "reader", "look", "--session", "notes", "--id", "n1")
		e := decode[events.Session](t, say(t, 0, nil, "session", "info", "notes", "--json").out)
		if e.Branch != "fix/notes" || e.Prompt != "Be brief." || e.Runs != 1 || e.Messages != 4 || e.InputTokens != 300 {
			t.Errorf("%+v", e)
		}
		say(t, 0, []string{"notes", "fix/notes", "sequential"}, "session", "list")
		say(t, 0, []string{"fix/notes", "n1", "4 messages of 1 input"}, "session", "info", "notes")
	})
	t.Run("SESS-9 SESS-18 the conversation can be read, also in the files of the session", func(t *testing.T) {
		talk := decode[client.Conversation](t, say(t, 0, nil, "session", "history", "notes", "--json").out)
		if len(talk.Messages) != 4 || talk.Session != "notes" || talk.TotalTokens != 350 || talk.CreatedAt.IsZero() || talk.UpdatedAt.IsZero() {
			t.Fatalf("%+v", talk)
		}
		asked, calls, last := talk.Messages[0], talk.Messages[1], talk.Messages[3]
		if asked.Role != "user" || asked.Content != "look" || asked.At.IsZero() || len(calls.Calls) != 1 || calls.Calls[0].Name != "read" || calls.Metadata.Run != "n1" || last.Content != "The note is read." {
			t.Errorf("%+v", talk.Messages)
		}
		say(t, 0, []string{"look", "The note is read.", "4 messages"}, "session", "history", "notes")
		say(t, 0, nil, "run", "reader", "look again", "--session", "notes")
		for name, want := range map[string]string{".session.meta": `"session_id": "notes"`, ".harness/history.json": "The note is read.", ".harness/runs/run_001_n1.json": `"run": "n1"`} {
			if b, err := os.ReadFile(filepath.Join(work, name)); err != nil || !strings.Contains(string(b), want) {
				t.Errorf("%s: %v %s", name, err, b)
			}
		}
	})
	t.Run("LOOP-4a LOOP-12 LOOP-17 the result of a run comes with the whole conversation, also what it began with", func(t *testing.T) {
		say(t, 0, []string{"The note is read."}, "run", "reader", "look once more", "--session", "notes", "--id", "n3")
		out := decode[client.Outcome](t, say(t, 0, nil, "export", "n3", "--format", "messages").out)
		m := out.Conversation.Messages
		if out.Output != "The note is read." || out.FinishReason != events.FinishDone || len(m) != 12 || m[0].Content != "look" || m[0].Metadata.Run != "n1" || m[8].Content != "look once more" || m[11].Metadata.Run != "n3" {
			t.Errorf("%+v", out)
		}
		say(t, 5, nil, "export", "nobody", "--format", "messages")
		say(t, 2, nil, "export", "n3", "--format", "messages", "--bundle", "x")
	})
	t.Run("SESS-14 a stale session is warned of where it is listed and where it is used", func(t *testing.T) {
		d.age("notes", 9*24*time.Hour)
		say(t, 0, []string{"stale", "may be out of date"}, "session", "list")
		s := say(t, 0, nil, "run", "reader", "look", "--session", "notes")
		if !strings.Contains(s.err, "session notes was last used 9 days ago") {
			t.Errorf("no warning: %s", s.err)
		}
		if s := say(t, 0, nil, "run", "reader", "look", "--session", "notes"); strings.Contains(s.err, "last used") {
			t.Errorf("it was used a moment ago: %s", s.err)
		}
	})
	t.Run("SESS-13e cleanup deletes what was not used for long, and nothing else", func(t *testing.T) {
		d.inherit("old", 8*24*time.Hour)
		say(t, 2, []string{"7d"}, "session", "cleanup", "--older-than", "soon")
		say(t, 0, []string{"old", "Would delete 1 session."}, "session", "cleanup", "--dry-run")
		say(t, 0, []string{"is open"}, "session", "start", "other")
		if s := say(t, 0, []string{"Deleted 1 session."}, "session", "cleanup", "--older-than", "7d"); strings.Contains(s.out, "notes") {
			t.Errorf("%s", s.out)
		}
		if all := decode[[]events.Session](t, say(t, 0, nil, "session", "list", "--json").out); len(all) != 2 {
			t.Errorf("%+v", all)
		}
	})
	t.Run("SESS-12 SESS-8 pause, resume, end, clear", func(t *testing.T) {
		say(t, 0, []string{"is paused"}, "session", "pause", "notes")
		say(t, 4, []string{"session_paused", "inspan session resume notes"}, "run", "reader", "look", "--session", "notes")
		say(t, 0, []string{"goes on"}, "session", "resume", "notes")
		say(t, 0, []string{"has ended"}, "session", "end", "notes")
		say(t, 0, []string{"no history"}, "session", "clear", "notes")
		if talk := decode[client.Conversation](t, say(t, 0, nil, "session", "history", "notes", "--json").out); len(talk.Messages) != 0 {
			t.Errorf("SESS-10 %+v", talk)
		}
		say(t, 0, []string{"The note is read."}, "run", "reader", "look", "--session", "notes")
	})
	t.Run("SESS-13c delete takes the files too, and the name is free", func(t *testing.T) {
		say(t, 0, []string{"is deleted"}, "session", "delete", "notes")
		say(t, 5, nil, "session", "info", "notes")
		for deadline := time.Now().Add(30 * time.Second); ; {
			if _, err := os.Stat(work); os.IsNotExist(err) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the files are still there")
			}
			<-time.After(20 * time.Millisecond)
		}
		say(t, 0, nil, "run", "reader", "look", "--session", "notes")
	})
}
