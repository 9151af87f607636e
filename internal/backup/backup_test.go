package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// errCut stands for the end of the process.
var errCut = errors.New("cut")

// cut is a station whose reads end at one of them, and during one of which something arrives.
type cut struct {
	backup.Source
	reads, at int
	arrives   func()
}

func (c *cut) read() error {
	if c.reads++; c.reads == c.at {
		return errCut
	}
	return nil
}

func (c *cut) LogState(ctx context.Context) (backup.State, error) {
	if err := c.read(); err != nil {
		return backup.State{}, err
	}
	if f := c.arrives; f != nil {
		c.arrives = nil
		f()
	}
	return c.Source.LogState(ctx)
}

func (c *cut) InAfter(ctx context.Context, after uint64) (backup.Message, bool, error) {
	if err := c.read(); err != nil {
		return backup.Message{}, false, err
	}
	return c.Source.InAfter(ctx, after)
}

func (c *cut) TimersAfter(ctx context.Context, family string, after uint64) (backup.Message, bool, error) {
	if err := c.read(); err != nil {
		return backup.Message{}, false, err
	}
	return c.Source.TimersAfter(ctx, family, after)
}

func (c *cut) Value(ctx context.Context, bucket, key string) ([]byte, error) {
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.Source.Value(ctx, bucket, key)
}

func (c *cut) ReadObject(ctx context.Context, o backup.Object) ([]byte, error) {
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.Source.ReadObject(ctx, o)
}

func place(t *testing.T) *jet.Station {
	t.Helper()
	return jettest.Station(t, jettest.Connect(t, jettest.Server(t), jet.Config{}), "s1", jet.ApplyOptions{Replicas: 1})
}

func publish(t *testing.T, st *jet.Station, subject, body string) {
	t.Helper()
	if err := st.Publish(t.Context(), subject, []byte(body), nil); err != nil {
		t.Fatal(err)
	}
}

// withData is a station with something of everything but events.
func withData(t *testing.T) *jet.Station {
	t.Helper()
	st := place(t)
	publish(t, st, events.TaskSubject("s1"), `{"agent":"a","task":"x"}`)
	publish(t, st, events.TaskSubject("s1"), `{"agent":"a","task":"y","id":"mine"}`)
	config := st.KV(topology.ConfigBucket)
	for key, value := range map[string]string{"agent.a": "{}", topology.StationKeyKey: "a secret of the station"} {
		if err := config.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.Blobs().Put(t.Context(), "text", []byte("something large")); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Artifacts().Put(t.Context(), "r1", []byte("something made"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := st.Timers().Set(t.Context(), "r1", "run.deadline", time.Now().Add(time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	return st
}

func takeOf(src backup.Source, dir string) backup.TakeConfig {
	return backup.TakeConfig{Source: src, Station: "s1", Dir: dir, Version: "test", Now: time.Now}
}

func inputsOf(t *testing.T, st *jet.Station) (all []backup.Message) {
	t.Helper()
	for after := uint64(0); ; {
		m, ok, err := st.InAfter(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		all, after = append(all, m), m.Seq
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	st := withData(t)
	t.Run("PLUS-18b cut at any read, it is no backup and is taken again", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		cuts := 0
		for at := 1; ; at++ {
			_, err := backup.Take(t.Context(), takeOf(&cut{Source: st, at: at}, dir))
			if err == nil {
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			cuts++
			if _, err := backup.Check(t.Context(), dir, nil); !errors.Is(err, backup.ErrNoBackup) {
				t.Fatalf("cut at read %d: %v", at, err)
			}
		}
		if m, err := backup.Check(t.Context(), dir, nil); err != nil || m.Inputs != 2 || m.Objects != 2 || m.Timers == 0 || cuts < 6 {
			t.Errorf("%d cuts, %+v, %v", cuts, m, err)
		}
		if _, err := backup.Take(t.Context(), takeOf(st, dir)); !errors.Is(err, backup.ErrExists) {
			t.Errorf("a whole backup was written over: %v", err)
		}
	})
	t.Run("PLUS-18c keys are named and not copied", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		m, err := backup.Take(t.Context(), takeOf(st, dir))
		if err != nil || len(m.Keys) != 1 || m.Keys[0] != topology.StationKeyKey {
			t.Fatalf("%v %v", m.Keys, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "values.jsonl"))
		if err != nil || strings.Contains(string(b), "secret") || !strings.Contains(string(b), "agent.a") {
			t.Errorf("%s %v", b, err)
		}
	})
	t.Run("PLUS-18a what arrives while the point is taken is in it, and a task keeps the run that it starts", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "b")
		m, err := backup.Take(t.Context(), takeOf(&cut{Source: st, arrives: func() {
			publish(t, st, events.ControlSubject("s1", "r1"), `{"action":"pause"}`)
		}}, dir))
		if err != nil || m.In != 3 || m.Inputs != 3 {
			t.Fatalf("%+v %v", m, err)
		}
		to := place(t)
		for range 2 { // twice is as once
			if err := backup.Fill(t.Context(), to, dir, m, nil); err != nil {
				t.Fatal(err)
			}
		}
		was, is := inputsOf(t, st), inputsOf(t, to)
		if len(is) != 3 || is[0].Seq != 4 {
			t.Fatalf("%+v", is)
		}
		if id := runlog.IDOf("s1", was[0].Seq, was[0].Time); !strings.Contains(string(is[0].Data), id) {
			t.Errorf("%s, want the id %s", is[0].Data, id)
		}
		if string(is[1].Data) != string(was[1].Data) || is[2].Subject != was[2].Subject {
			t.Errorf("%+v", is)
		}
		if made, err := to.Artifacts().Stored(t.Context()); err != nil || len(made) != 1 || made[0].TTL != time.Hour {
			t.Errorf("%+v %v", made, err)
		}
		if b, err := to.KV(topology.ConfigBucket).Get(t.Context(), "agent.a"); err != nil || string(b) != "{}" {
			t.Errorf("%s %v", b, err)
		}
		if m, ok, err := to.TimersAfter(t.Context(), "run", 0); err != nil || !ok || m.Header["Nats-Schedule"] == nil {
			t.Errorf("%+v %v %v", m, ok, err)
		}
	})
}
