package station_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// TestDrain gives tasks to a station that is being stopped.
func TestDrain(t *testing.T) {
	t.Parallel()
	dir, mark := t.TempDir(), &marker{marks: map[string]int{}}
	began, leave := make(chan struct{}, 2), make(chan struct{}) // two calls in the run under way
	mark.set(func(context.Context) error {
		began <- struct{}{}
		<-leave
		return nil
	})
	cfg, err := upConfig(dir, mark)
	if err != nil {
		t.Fatal(err)
	}
	up := func(cfg station.Config) (*station.Station, *client.Client) {
		t.Helper()
		st, err := station.Up(within(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c, err := operator.On(st.Conn(), "default")
		if err != nil {
			t.Fatal(err)
		}
		return st, c
	}
	st, c := up(cfg)
	task := func(id string) {
		t.Helper()
		if _, err := c.Dispatch(within(t), events.Task{ID: id, Agent: "marks", Task: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	task("early")
	<-began
	closed := make(chan error, 1)
	go func() { closed <- st.Close(context.Background()) }()
	until(t, "the end of the planner", time.Minute, func() bool {
		h, err := c.Health(within(t))
		return err == nil && h.Services[string(events.Planner)] == 0
	})
	const late = 20
	for i := range late {
		task(fmt.Sprint("late", i))
	}
	close(leave)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}

	t.Run("SAFE-13 DEPL-6 tasks that come while a station drains are begun by none of its services", func(t *testing.T) {
		still := cfg
		still.Still = true
		st, c := up(still)
		for i := range late {
			if s, err := c.State(within(t), fmt.Sprint("late", i)); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("run late%d has %d events, %v", i, s.Sequence, err)
			}
		}
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("SAFE-13 DEPL-6 and the next start takes all of them up", func(t *testing.T) {
		mark.set(nil)
		st, c := up(cfg)
		for i := range late {
			until(t, "the end of a run", time.Minute, func() bool {
				s, err := c.State(within(t), fmt.Sprint("late", i))
				return err == nil && s.Status == events.Completed
			})
		}
		if err := st.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
