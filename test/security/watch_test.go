package security

import (
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
)

// TestForgedNews has every user ask all that it may ask and name what people watch as the subject for the answer, which
// the server publishes with its own rights. A plain watcher must hear what is stored and nothing else.
func TestForgedNews(t *testing.T) {
	t.Parallel()
	t.Run("on one server", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		forgedNews(t, b, b.wire("watcher"))
	})
	t.Run("on three servers, the watcher on another than the forgers", func(t *testing.T) {
		t.Parallel()
		g := jettest.Cluster(t, 3, func(cfg *natsserver.Config) { cfg.Accounts = shipped() })
		forgedNews(t, bedOn(t, g.Server(0).URL(), 3), dial(t, g.Server(2).URL(), "watcher", password("watcher")))
	})
}

func forgedNews(t *testing.T, b *bed, watcher *wire) {
	filled(b)
	stop, err := b.conn("planner").Services().Register(events.Planner, "1.0.0", func([]byte) any { return "forged" })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }() // the connection goes with the test
	if refusedBy(b.wire("toolrunner"), inboxOf("toolrunner"), "$O.harness-files.C.forged", "", forgery) {
		t.Fatal("no object to forge with")
	}
	admin := b.wire("setup")
	for i, pattern := range []string{"station.*.run.*.stream", "station.s1.run.v.stream", "station.*.dead.>", "station.s1.dead.*", "station.s1.dead.planner"} {
		watcher.send("SUB %s w%d\r\n", pattern, i)
	}
	watcher.settle()
	tries := 0
	for _, user := range untrusted {
		w := b.wire(user)
		for question, body := range questions(user) {
			if strings.HasPrefix(question, "station.s1.run.v.evt.") || strings.HasPrefix(question, "station.s1.dead.") {
				continue // this one is news, and its author may say it
			}
			for _, target := range []string{"station.s1.run.v.stream", "station.s1.run.other.stream", "station.s1.dead.planner", "station.s1.dead.x"} {
				for _, header := range []string{"", "Nats-Trace-Dest: " + target} {
					if header != "" && user == "planner" {
						continue // it may publish there
					}
					tries++
					w.publish(question, target, header, body)
				}
			}
			w.settle()
		}
	}
	settled(b, admin)
	t.Run("SAFE-6 no answer of the server comes to a watcher as an event or a dead letter", func(t *testing.T) {
		if tries < 100 {
			t.Fatalf("%d tries", tries)
		}
		_, got := watcher.settle()
		for _, m := range got {
			t.Errorf("heard on %s: %s%s", m.subject, m.header, m.body)
		}
	})
	t.Run("OBS-1 DEPL-6 and what is stored does, under the subject that people watch", func(t *testing.T) {
		b.event(b.wire("planner"), inboxOf("planner"), "v", "run.paused", "{}")
		if refusedBy(b.wire("planner"), inboxOf("planner"), "station.s1.dead.planner", "", `{"code":"x"}`) {
			t.Fatal("the planner cannot refuse input")
		}
		var received []string
		for len(received) < 5 { // once for each pattern
			if m, ok := watcher.message(watcher.line()); ok {
				received = append(received, m.subject)
			}
		}
		slices.Sort(received)
		if want := []string{"station.s1.dead.planner", "station.s1.dead.planner", "station.s1.dead.planner", "station.s1.run.v.stream", "station.s1.run.v.stream"}; !slices.Equal(received, want) {
			t.Errorf("heard %q, want %q", received, want)
		}
		if messages, _ := b.stored(admin, "DEAD_s1"); messages != 2 { // one was there before
			t.Errorf("%d dead letters are stored, want 2", messages)
		}
	})
}
