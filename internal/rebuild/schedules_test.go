package rebuild_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-8 PERS-21 the row of a schedule that is gone or damaged is made again, byte for byte", func(t *testing.T) {
		t.Parallel()
		st, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rows, log := st.KV(topology.SessionBucket), st.JournalFor(events.ScheduleAggregate)
		l, err := schedule.NewLedger(schedule.LedgerConfig{Station: "s1", By: events.Planner, Journal: log, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		spec := events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "a", Task: "x"}}
		ids := []string{"gone", "damaged"}
		var want [][]byte
		for _, id := range ids {
			w, err := l.Write(t.Context(), id, func(s schedule.State, now time.Time) ([]events.Payload, error) {
				s, err := schedule.Steer(s, schedule.Wish{ScheduleControl: events.ScheduleControl{Action: schedule.Set, Spec: &spec}, Schedule: id, Input: 1}, now, nil)
				if err == nil {
					s, err = schedule.Due(s, now.Add(3*time.Hour), func(string, int) string { return "firing_x" })
				}
				return s.Changes(), err
			})
			if err != nil {
				t.Fatal(err)
			}
			row, err := schedule.View().Row(w.State, w.Head)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, row)
		}
		if err := rows.Put(t.Context(), schedule.View().Key("damaged"), []byte("{")); err != nil {
			t.Fatal(err)
		}
		rep, err := rebuild.All(t.Context(), rebuild.Config{Journal: st.Journal(), State: st.KV(topology.StateBucket), Blobs: st.Blobs(), Now: time.Now,
			Logged:    func(context.Context) ([]string, error) { return nil, nil },
			Schedules: rebuild.Rows{Journal: log, Rows: rows, Logged: func(context.Context) ([]string, error) { return ids, nil }}})
		if err != nil || rep.Schedules[rebuild.Made] != 1 || rep.Schedules[rebuild.Corrected] != 1 || rep.Changed() != 2 || len(rep.Faults) > 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
		for i, id := range ids {
			if got, err := rows.Get(t.Context(), schedule.View().Key(id)); err != nil || !bytes.Equal(got, want[i]) {
				t.Errorf("%s is %s, was %s", id, got, want[i])
			}
		}
	})
}
