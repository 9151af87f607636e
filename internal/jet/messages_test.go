package jet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/intake"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
)

// follows follows a subject until the test or stop ends it.
func follows(t *testing.T, c *jet.Conn, f intake.Following) (ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { done <- jet.MessagesOf(c).Follow(ctx, f) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return done, stop
}

func TestMessages(t *testing.T) {
	t.Parallel()
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Port: -1, LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	c := jettest.Connect(t, s, jet.Config{})
	outside := jettest.Outside(t, s.URL())
	now := func(context.Context) error { return nil }
	t.Run("TRIG-10 a message that was not taken comes again with the same id, and another one behind it meanwhile", func(t *testing.T) {
		outside.Stream("S", "s.>")
		got, refusals := make(chan intake.Message, 16), 1
		_, stop := follows(t, c, intake.Following{Name: "n", Subject: "s.a", Ready: now, Lost: func(int) { t.Error("lost") },
			Take: func(_ context.Context, m intake.Message) error {
				got <- m
				if refusals--; refusals >= 0 {
					return errors.New("not now")
				}
				return nil
			}})
		untilOpen(t, outside, "S", 0, 1)
		outside.Say("s.a", "one", "")
		outside.Say("s.a", "two", "")
		first, second := await(t, got, "one"), await(t, got, "two")
		again := awaitFor(t, got, "one again", 75*time.Second)
		if string(again.Data) != "one" || again.ID != first.ID || again.ID == "" || second.ID == first.ID || !again.Stored {
			t.Errorf("%+v %+v %+v", first, second, again)
		}
		untilOpen(t, outside, "S", 0, 1)
		stop()
		// A stream of the same name begins with 1 again: its messages are others.
		outside.Unstream("S")
		outside.Stream("S", "s.>")
		follows(t, c, intake.Following{Name: "n", Subject: "s.a", Ready: now, Take: func(_ context.Context, m intake.Message) error {
			got <- m
			return nil
		}})
		untilOpen(t, outside, "S", 0, 1)
		outside.Say("s.a", "one", "")
		if other := await(t, got, "one of another stream"); other.ID == first.ID {
			t.Errorf("%+v", other)
		}
	})
	t.Run("TRIG-10 a stream that holds a part of a subject, or several that do, are refused", func(t *testing.T) {
		outside.Stream("P1", "p.a")
		ended, _ := follows(t, c, intake.Following{Name: "n", Subject: "p.>", Ready: now})
		if err := await(t, ended, "the end"); err == nil || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		outside.Stream("P2", "p.b")
		ended, _ = follows(t, c, intake.Following{Name: "n", Subject: "p.*", Ready: now})
		if err := await(t, ended, "the end"); err == nil || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("TRIG-10 without a stream what is too much is counted as lost, and nothing else is", func(t *testing.T) {
		const sent = 1000
		var mu sync.Mutex
		taken, lost := 0, 0
		count := func(n *int, by int) {
			mu.Lock()
			defer mu.Unlock()
			*n += by
		}
		begun, release := make(chan bool, sent), make(chan bool)
		follows(t, c, intake.Following{Name: "n", Subject: "core.x", Ready: now, Lost: func(n int) { count(&lost, n) },
			Take: func(_ context.Context, m intake.Message) error {
				begun <- true
				<-release
				count(&taken, 1)
				return nil
			}})
		for len(begun) == 0 { // until someone is there
			outside.Say("core.x", "first", "")
		}
		for n := range sent {
			outside.Say("core.x", fmt.Sprint(n), "")
		}
		reach := func(what string, want func() bool) {
			t.Helper()
			if err := untilDone(within(t), func() error {
				mu.Lock()
				defer mu.Unlock()
				if !want() {
					return fmt.Errorf("%s: %d taken, %d lost", what, taken, lost)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		reach("while none is taken", func() bool { return lost >= sent-256-1 })
		close(release)
		reach("all", func() bool { return taken+lost >= sent && taken >= 256 })
	})
}

// untilOpen waits until a stream has so many messages to acknowledge, and consumers.
func untilOpen(t *testing.T, o *jettest.Outsider, stream string, messages uint64, consumers int) {
	t.Helper()
	if err := untilDone(within(t), func() error {
		if m, c := o.Open(stream); m != messages || c != consumers {
			return fmt.Errorf("stream %s has %d messages open and %d consumers", stream, m, c)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
