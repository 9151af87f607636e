package rebuild_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-8 PERS-21 DLV-2 the row of a merge queue that is gone or damaged is made again, byte for byte", func(t *testing.T) {
		t.Parallel()
		st, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rows, log := st.KV(topology.SessionBucket), st.JournalFor(events.QueueAggregate)
		l, err := mergequeue.NewLedger(mergequeue.LedgerConfig{Station: "s1", By: events.Planner, Journal: log, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		spec := events.QueueSpec{Repo: "https://example.org/p", Branch: "main", Agent: "a", Accept: &events.Accept{Checks: []events.Check{{Kind: events.CheckCommand, Run: "true"}}}}
		ids := []string{"gone", "damaged"}
		var want [][]byte
		for _, id := range ids {
			w, err := l.Write(t.Context(), id, func(s mergequeue.State, now time.Time) ([]events.Payload, error) {
				s, err := mergequeue.Steer(s, mergequeue.Wish{QueueControl: events.QueueControl{Action: mergequeue.Add, Spec: &spec}, Queue: id, Input: 1}, now)
				if err == nil {
					s, err = mergequeue.Enqueue(s, id, events.Queued{Work: "w", Epoch: 1, Run: "r", Branch: "b", Commit: "c"}, now)
				}
				return s.Changes(), err
			})
			if err != nil {
				t.Fatal(err)
			}
			row, err := mergequeue.View().Row(w.State, w.Head)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, row)
		}
		if err := rows.Put(t.Context(), mergequeue.View().Key("damaged"), []byte("{")); err != nil {
			t.Fatal(err)
		}
		rep, err := rebuild.All(t.Context(), rebuild.Config{Journal: st.Journal(), State: st.KV(topology.StateBucket), Blobs: st.Blobs(), Now: time.Now,
			Logged: func(context.Context) ([]string, error) { return nil, nil },
			Queues: rebuild.Rows{Journal: log, Rows: rows, Logged: func(context.Context) ([]string, error) { return ids, nil }}})
		if err != nil || rep.Queues[rebuild.Made] != 1 || rep.Queues[rebuild.Corrected] != 1 || rep.Changed() != 2 || len(rep.Faults) > 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
		for i, id := range ids {
			if got, err := rows.Get(t.Context(), mergequeue.View().Key(id)); err != nil || !bytes.Equal(got, want[i]) {
				t.Errorf("%s is %s, was %s", id, got, want[i])
			}
		}
	})
}
