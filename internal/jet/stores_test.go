package jet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestBlobsExam(t *testing.T) {
	t.Parallel()
	kerneltest.Blobs(t, func(t *testing.T) (kernel.Blobs, func(*testing.T, events.Ref, []byte)) {
		s := jettest.Server(t)
		st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
		_, js := raw(t, s)
		return st.Blobs(), func(t *testing.T, ref events.Ref, data []byte) {
			t.Helper()
			store, err := js.ObjectStore(within(t), topology.FilesBucket)
			if err != nil {
				t.Fatal(err)
			}
			info, err := store.GetInfo(within(t), "s1."+ref.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := js.Stream(within(t), topology.FilesStream())
			if err != nil {
				t.Fatal(err)
			}
			subject := "$O." + topology.FilesBucket + ".C." + info.NUID
			if err := stream.Purge(within(t), jetstream.WithPurgeSubject(subject)); err != nil {
				t.Fatal(err)
			}
			if len(data) == 0 {
				return
			}
			if _, err := js.Publish(within(t), subject, data); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t)
	st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
	_, js := raw(t, s)
	store, err := js.ObjectStore(within(t), topology.FilesBucket)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // several parts
	ref, err := st.Blobs().Put(within(t), "text/plain", data)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("PERS-19 DEPL-6 any client of the NATS object store reads what we put", func(t *testing.T) {
		got, err := store.GetBytes(within(t), "s1."+ref.SHA256)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d bytes, %v; want %d", len(got), err, len(data))
		}
		if info, err := store.GetInfo(within(t), "s1."+ref.SHA256); err != nil || info.Headers.Get("Content-Type") != "text/plain" || info.Size != uint64(len(data)) {
			t.Errorf("info: got %+v, %v", info, err)
		}
	})
	t.Run("PERS-19 putting again writes nothing", func(t *testing.T) {
		before := messages(t, js, topology.FilesStream())
		if again, err := st.Blobs().Put(within(t), "text/plain", data); err != nil || again != ref {
			t.Errorf("got %+v, %v", again, err)
		}
		if after := messages(t, js, topology.FilesStream()); after != before {
			t.Errorf("%d messages, before %d", after, before)
		}
	})
	t.Run("SAFE-6 a later description of an object does not hide the first", func(t *testing.T) {
		info, err := store.GetInfo(within(t), "s1."+ref.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		meta := findMeta(t, js, info.Name)
		info.NUID = "nothing-there"
		body, _ := json.Marshal(info)
		if _, err := js.Publish(within(t), meta, body); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Blobs().Get(within(t), ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
	t.Run("SAFE-15 PERS-16 an object above the limit is refused", func(t *testing.T) {
		if _, err := st.Blobs().Put(within(t), "", make([]byte, topology.MaxObject+1)); !errors.Is(err, kernel.ErrTooLarge) {
			t.Errorf("put: got %v, want ErrTooLarge", err)
		}
		if _, err := st.Blobs().Get(within(t), events.Ref{SHA256: ref.SHA256, Size: topology.MaxObject + 1}); !errors.Is(err, kernel.ErrTooLarge) {
			t.Errorf("get: got %v, want ErrTooLarge", err)
		}
	})
	t.Run("SAFE-14 a full object store says so", func(t *testing.T) {
		c := jettest.Connect(t, jettest.Server(t), jet.Config{})
		st := jettest.Station(t, c, "s1", jet.ApplyOptions{Limits: topology.Limits{FileBytes: 200 << 10}})
		if _, err := st.Blobs().Put(within(t), "", make([]byte, 1<<20)); !errors.Is(err, kernel.ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
	})
}

// findMeta returns the subject of an object's description.
func findMeta(t *testing.T, js jetstream.JetStream, name string) string {
	t.Helper()
	stream, err := js.Stream(within(t), topology.FilesStream())
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(within(t), "$O."+topology.FilesBucket+".M.>")
	if err != nil || !bytes.Contains(m.Data, []byte(name)) {
		t.Fatalf("description of %s: %v", name, err)
	}
	return m.Subject
}

func messages(t *testing.T, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	st, err := js.Stream(within(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	return st.CachedInfo().State.Msgs
}

func TestTimers(t *testing.T) {
	t.Parallel()
	s := jettest.Server(t)
	st := jettest.Station(t, jettest.Connect(t, s, jet.Config{}), "s1", jet.ApplyOptions{})
	_, js := raw(t, s)
	type firing struct {
		m  kernel.Message
		at time.Time
	}
	t.Run("SAFE-14 firings no one hears do not pile up: one for each name", func(t *testing.T) {
		for range 20 {
			if err := st.Timers().Set(within(t), "r1", "run.x", time.Now().Add(-time.Minute), 0); err != nil {
				t.Fatal(err)
			}
			if err := st.Timers().Set(within(t), "r1", "run.y", time.Now().Add(time.Hour), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := messages(t, js, topology.Tmr("s1", "run")); got != 2 {
			t.Errorf("%d messages, want one firing and one timer", got)
		}
		if err := st.Timers().Set(within(t), "r1", "run.y", time.Now(), 0); err != nil {
			t.Fatal(err)
		}
		if got := messages(t, js, topology.Tmr("s1", "run")); got != 2 {
			t.Errorf("%d messages after the timer was set to now, want two firings and no timer", got)
		}
	})
	t.Run("PERF-1 a timer fires when it is due, within a second, and leaves nothing behind", func(t *testing.T) {
		fired := make(chan firing, 64)
		stop := listen(t, st, events.Planner, 4, func(_ context.Context, m kernel.Message) { fired <- firing{m, time.Now()} })
		for range 2 {
			if err := await(t, fired, "the old firings").m.Ack(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		for _, in := range []time.Duration{0, 50 * time.Millisecond, 400 * time.Millisecond, 1700 * time.Millisecond} {
			at := time.Now().Add(in)
			if err := st.Timers().Set(within(t), "r2", "run.x", at, 0); err != nil {
				t.Fatal(err)
			}
			f := await(t, fired, "a timer")
			if late := f.at.Sub(at); late < -50*time.Millisecond || late > 2*time.Second {
				t.Errorf("a timer in %s was %s late", in, late)
			} else {
				t.Logf("a timer in %s was %s late", in, late)
			}
			if err := f.m.Ack(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if err := untilDone(within(t), func() error {
			if n := messages(t, js, topology.Tmr("s1", "run")); n != 0 {
				return errors.New("messages are left")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("SAFE-12 a name that is not a family and an id is refused", func(t *testing.T) {
		for _, name := range []string{"", "x", "a.b.c", "a.>", "*.b", "a b.c"} {
			if err := st.Timers().Set(within(t), "r1", name, time.Now(), 0); err == nil {
				t.Errorf("%q: got no error", name)
			}
		}
	})
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	_, st := one(t, jet.ApplyOptions{})
	t.Run("SAFE-12 a dead letter is stored with its reason and can be shown", func(t *testing.T) {
		want := kernel.DeadLetter{Subject: "station.s1.task", Seq: 7, Code: "bad_input", Reason: "no agent", Hint: "name one", Data: "{}", DataBytes: 2}
		for range 3 {
			if err := st.Refusals().Refuse(within(t), events.Planner, want); err != nil {
				t.Fatal(err)
			}
		}
		got, more, err := st.Dead(within(t), 1)
		if err != nil || more || len(got) != 2 || got[0].Seq != 2 || got[0].By != events.Planner || !reflect.DeepEqual(got[0].Letter, want) {
			t.Errorf("got %+v, %v, %v", got, more, err)
		}
	})
}
