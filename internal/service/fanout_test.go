package service

import (
	"context"
	"runtime"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
)

func TestEars(t *testing.T) {
	t.Parallel()
	t.Run("a process overhears events once, whoever listens, and each listener for as long as it runs", func(t *testing.T) {
		t.Parallel()
		e := &fanOut{pages: runlog.NewPages(0)}
		var subscribed int
		var said func(string, kernel.Record)
		republished := func(receive func(string, kernel.Record)) (func(), error) {
			subscribed, said = subscribed+1, receive
			return func() {}, nil
		}
		received := map[string]int{}
		gone, stop := context.WithCancel(t.Context())
		for range 2 {
			if err := e.open(t.Context(), republished); err != nil {
				t.Fatal(err)
			}
		}
		e.add(gone, func(string, kernel.Record) { received["gone"]++ })
		e.add(t.Context(), func(string, kernel.Record) { received["stays"]++ })
		said("r1", kernel.Record{Seq: 1})
		stop()
		for len(e.listeners()) == 2 { // it is taken out as soon as its context has ended
			runtime.Gosched()
		}
		said("r1", kernel.Record{Seq: 2})
		if subscribed != 1 || received["gone"] != 1 || received["stays"] != 2 {
			t.Errorf("subscribed %d times, heard %v", subscribed, received)
		}
	})
}
