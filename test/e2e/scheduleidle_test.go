package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
)

// idling is a station whose server says how many messages it took.
type idling struct {
	*world
	server *natsserver.Server
	made   int
}

func newIdling(t testing.TB) *idling {
	t.Helper()
	s := jettest.Server(t, func(c *natsserver.Config) { c.MonitorPort = -1 })
	w := &idling{world: worldOn(t, jettest.Connect(t, s, jet.Config{})), server: s}
	w.agent(events.Agent{Name: "nightly", Tools: []string{"write"}, Prompt: "You review."}, nightly)
	w.start()
	return w
}

// with makes schedules until there are n, none of which fires for a year.
func (w *idling) with(n int) {
	w.t.Helper()
	spec := events.ScheduleSpec{Every: "8760h", Jitter: "5m", Task: events.ScheduledTask{Agent: "nightly", Task: "review"}}
	b, err := json.Marshal(events.ScheduleControl{Action: "set", Spec: &spec})
	if err != nil {
		w.t.Fatal(err)
	}
	for ; w.made < n; w.made++ {
		w.publish(events.ScheduleSubject("test", fmt.Sprintf("s%d", w.made)), string(b))
	}
	w.until(fmt.Sprintf("made %d schedules", n), func() bool {
		keys, err := w.ports.Sessions.Keys(w.ctx(), schedule.View().Prefix)
		if err != nil {
			w.t.Fatal(err)
		}
		keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, schedule.View().Key("s")) })
		return len(keys) >= n
	})
}

// window is what a station costs while nothing happens: it lasts until a schedule of its own fires and its run has ended.
func (w *idling) window(id string, lasts time.Duration) (messages int, cpu time.Duration, goroutines int) {
	w.t.Helper()
	at := time.Now().Add(lasts)
	before, used := w.messages(), used()
	w.setSchedule(id, events.ScheduleSpec{At: &at, Task: events.ScheduledTask{Agent: "nightly", Task: "review"}})
	goroutines = runtime.NumGoroutine()
	w.scheduleIs(id, "done", doneWith(1))
	return w.messages() - before, used2(used), goroutines
}

func (w *idling) messages() int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.MonitorURL()+"/varz", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct {
		In int `json:"in_msgs"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		w.t.Fatal(err)
	}
	return v.In
}

// used is the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func used2(since time.Duration) time.Duration { return used() - since }

func TestSchedulesIdle(t *testing.T) {
	w := newIdling(t) // not beside others: it counts what this process does
	none, _, few := w.window("w0", 2*time.Second)
	w.with(400)
	many, _, more := w.window("w1", 2*time.Second)
	t.Run("TRIG-5 schedules that wait cost no goroutine and no message", func(t *testing.T) {
		if more-few > 50 {
			t.Errorf("%d goroutines without schedules, %d with 400", few, more)
		}
		if many-none > 200 {
			t.Errorf("%d messages without schedules, %d with 400 in the same time", none, many)
		}
		t.Logf("messages: %d without, %d with 400 schedules; goroutines: %d, %d", none, many, few, more)
	})
}

// BenchmarkIdleSchedules says what a station costs in ten seconds with 10,000 schedules that wait, and without them.
func BenchmarkIdleSchedules(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newIdling(b)
			w.with(n)
			round := 0
			for b.Loop() {
				round++
				messages, cpu, goroutines := w.window(fmt.Sprintf("w%d", round), 10*time.Second)
				b.ReportMetric(float64(messages), "messages/10s")
				b.ReportMetric(float64(cpu.Milliseconds()), "cpu-ms/10s")
				b.ReportMetric(float64(goroutines), "goroutines")
			}
		})
	}
}
