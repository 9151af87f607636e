package client_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestFollow(t *testing.T) {
	t.Parallel()
	server := jettest.Server(t)
	w := newWorldOn(t, jettest.Connect(t, server, jet.Config{}))
	kinds := []events.Kind{events.RunPaused, events.RunResumed}
	from, err := w.c.Runs().Now(within(t), kinds...)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(id string) { w.begin(id) }
	var next client.Position
	t.Run("PLUS-15 the events of all runs come once and in order, also while the connection is lost and comes back", func(t *testing.T) {
		const runs = 8
		type seen struct {
			run  string
			kind events.Kind
		}
		got, done := []seen{}, make(chan struct{})
		ctx := within(t)
		go func() {
			defer close(done)
			for p, err := range w.c.Runs().Follow(ctx, from) {
				if err != nil {
					t.Error(err)
					return
				}
				got, next = append(got, seen{p.Run, p.Payload.Kind()}), p.Next
				if len(got) == 2*runs {
					return
				}
			}
		}()
		var want []seen
		for i := range runs {
			id := "run-" + strconv.Itoa(i)
			begin(id)
			w.say(id, runtest.Paused("p"), runtest.Resumed())
			want = append(want, seen{id, events.RunPaused}, seen{id, events.RunResumed})
			if i == runs/2 {
				if err := server.Restart(); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-done
		for _, k := range kinds {
			of := func(all []seen) (only []seen) {
				for _, s := range all {
					if s.kind == k {
						only = append(only, s)
					}
				}
				return only
			}
			if !slices.Equal(of(got), of(want)) {
				t.Errorf("%s: got %v, want %v", k, of(got), of(want))
			}
		}
	})
	t.Run("PLUS-15 who comes again goes on behind what it had, and a position behind the end of the log counts as the end", func(t *testing.T) {
		begin("later")
		w.say("later", runtest.Paused("p"))
		for p, err := range w.c.Runs().Follow(within(t), next) {
			if err != nil || p.Run != "later" {
				t.Errorf("%v: run %s", err, p.Run)
			}
			break
		}
		begin("last")
		done, ahead := make(chan string, 1), client.Position{events.RunPaused: 1 << 40}
		go func() {
			for p := range w.c.Runs().Follow(within(t), ahead) {
				done <- p.Run
				return
			}
		}()
		// It may begin before or behind the first of these.
		for i := 0; ; i++ {
			w.say("last", runtest.Paused("p"), runtest.Resumed())
			select {
			case got := <-done:
				if got != "last" {
					t.Errorf("got run %s", got)
				}
				return
			default:
			}
		}
	})
}
