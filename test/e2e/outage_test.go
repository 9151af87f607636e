package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// speech is an answer of Anthropic's API in events; the last one makes it whole.
func speech(text string) []string {
	var out []string
	for _, data := range []string{`{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":10,"output_tokens":1}}}`,
		fmt.Sprintf(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%q}}`, text),
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`} {
		out = append(out, "data: "+data+"\n\n")
	}
	return out
}

func refusedBy(status int, kind, message string, headers ...string) llmtest.Reply {
	return llmtest.Refuse(status, fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message), headers...)
}

// providing is a station whose agent "asker" asks a provider that gives these replies, the last one for ever.
func providing(t *testing.T, tune func(*service.Config), replies ...llmtest.Reply) (*world, *llmtest.Server) {
	t.Helper()
	server := llmtest.Serve(t, replies...)
	w := newWorld(t)
	w.tune = func(c *service.Config) {
		c.AnthropicKey, c.AnthropicBaseURL = secret.New(llmtest.Key), server.URL
		if tune != nil {
			tune(c)
		}
	}
	w.agent(events.Agent{Name: "asker", Model: "anthropic/claude-x"}, "")
	w.start()
	return w, server
}

// outages are the deferrals of a run, in order.
func (w *world) outages(runID string) []*events.TurnDeferredData {
	w.t.Helper()
	var all []*events.TurnDeferredData
	for _, rec := range w.events(runID) {
		_, p, err := events.Read(rec.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		if d, ok := p.(*events.TurnDeferredData); ok {
			all = append(all, d)
		}
	}
	return all
}

// control steers a run.
func (w *world) control(runID string, c events.Control) {
	w.t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.ControlSubject("test", runID), string(b))
}

func paused(s run.State) bool { return s.Status == events.Paused }

func TestOutage(t *testing.T) {
	t.Parallel()
	whole := llmtest.Stream(speech("done")...)
	type deferral struct {
		status      int
		class, text string
		wait        time.Duration
	}
	for name, c := range map[string]struct {
		away []llmtest.Reply
		want []deferral
	}{
		"a limit with Retry-After and an error": {[]llmtest.Reply{refusedBy(http.StatusTooManyRequests, "rate_limit_error", "slow down", "Retry-After", "2"),
			refusedBy(http.StatusInternalServerError, "api_error", "oops")}, []deferral{{429, "rate_limit", "slow down", 2 * time.Second}, {500, "transient", "oops", 2 * time.Second}}},
		"a cut and a silent stream": {[]llmtest.Reply{llmtest.Broken(speech("cut")[:2]...), llmtest.Stuck(speech("silent")[:2]...)},
			[]deferral{{0, "transient", "", time.Second}, {0, "transient", "sends nothing", 2 * time.Second}}},
	} {
		t.Run("PLUS-13 "+name+" are waited for, then the provider answers the same turn", func(t *testing.T) {
			t.Parallel()
			w, server := providing(t, func(c *service.Config) { c.ModelIdle = 3 * time.Second }, append(c.away, whole)...)
			w.task(events.Task{ID: "out", Agent: "asker", Task: "ask"})
			s := w.ended("out")
			if s.Status != events.Completed || s.Result.Output != "done" || s.Turns().Len() != 1 || server.Requests() != len(c.away)+1 {
				t.Fatalf("%d requests\n%s", server.Requests(), w.story("out"))
			}
			all, stood := w.outages("out"), time.Duration(0)
			for i, want := range c.want {
				d := all[i]
				if wait := time.Duration(d.DelayMS) * time.Millisecond; d.Provider != "anthropic" || d.HTTPStatus != want.status || d.Class != want.class ||
					!strings.Contains(d.Error, want.text) || d.Attempt != i+1 || d.Pause || wait < want.wait {
					t.Errorf("deferral %d: %+v", i, d)
				}
				stood += want.wait
			}
			if got := time.Duration(s.Clock.StoppedMS) * time.Millisecond; got < stood {
				t.Errorf("the clock stood for %s, want at least %s", got, stood)
			}
		})
	}
	t.Run("PLUS-13 a refused key pauses the run with the reason; once it is repaired, resume goes on with the same turn", func(t *testing.T) {
		t.Parallel()
		var repaired atomic.Bool
		w, _ := providing(t, nil, func(rw http.ResponseWriter, r *http.Request) {
			if repaired.Load() {
				whole(rw, r)
				return
			}
			refusedBy(http.StatusUnauthorized, "authentication_error", "no such key")(rw, r)
		})
		w.task(events.Task{ID: "key", Agent: "asker", Task: "ask"})
		s := w.await("key", "paused", paused)
		if !strings.Contains(s.PauseReason, "no such key") || !strings.Contains(s.PauseReason, "anthropic") || len(w.outages("key")) != 1 {
			t.Fatalf("%q\n%s", s.PauseReason, w.story("key"))
		}
		w.control("key", events.Control{Action: "resume"}) // too early: it is paused again
		s = w.await("key", "paused again", func(s run.State) bool { return paused(s) && s.ResumedAt > 0 })
		repaired.Store(true)
		w.control("key", events.Control{Action: "resume"})
		s = w.ended("key")
		if s.Status != events.Completed || s.Turns().Len() != 1 || len(w.outages("key")) != 2 {
			t.Errorf("%s", w.story("key"))
		}
	})
	t.Run("PLUS-13 after the longest wait the run is paused, its deadline does not come meanwhile, and resume goes on", func(t *testing.T) {
		t.Parallel()
		var up atomic.Bool
		w, _ := providing(t, func(c *service.Config) { c.ModelMaxWait = 4 * time.Second }, func(rw http.ResponseWriter, r *http.Request) {
			if up.Load() {
				whole(rw, r)
				return
			}
			refusedBy(http.StatusServiceUnavailable, "overloaded_error", "overloaded")(rw, r)
		})
		w.task(events.Task{ID: "long", Agent: "asker", Task: "ask", Timeout: "1h"})
		s := w.await("long", "waiting", func(s run.State) bool { return len(s.Outages()) > 0 })
		if waits := view.Waits(s, s.UpdatedAt); len(waits) != 1 || waits[0].On != view.OnProvider || waits[0].Provider != "anthropic" || waits[0].HTTPStatus != 503 || waits[0].Try < 2 || waits[0].Until.IsZero() {
			t.Errorf("%+v", waits)
		}
		s = w.await("long", "paused", paused)
		if _, has := s.Deadline(); has || !strings.Contains(s.PauseReason, "longest wait is 4s") {
			t.Errorf("%q, a deadline: %v", s.PauseReason, has)
		}
		up.Store(true)
		w.control("long", events.Control{Action: "resume"})
		s = w.ended("long")
		at, _ := s.Deadline()
		if stood := at.Sub(s.StartedAt.Add(time.Hour)); s.Status != events.Completed || stood < time.Second || stood != time.Duration(s.Clock.StoppedMS)*time.Millisecond {
			t.Errorf("the clock stood for %s: %s %+v", stood, w.story("long"), s.Result)
		}
	})
	t.Run("PLUS-13 LIFE-7 a run that waits for a provider can be stopped and paused; its timer then asks nothing", func(t *testing.T) {
		t.Parallel()
		w, server := providing(t, nil, refusedBy(http.StatusServiceUnavailable, "overloaded_error", "overloaded", "Retry-After", "1"))
		w.task(events.Task{ID: "stopped", Agent: "asker", Task: "ask"})
		w.await("stopped", "waiting", func(s run.State) bool { return len(s.Outages()) > 0 })
		w.control("stopped", events.Control{Action: "stop", By: "anna"})
		s := w.ended("stopped")
		if s.Result.FinishReason != events.FinishStopped {
			t.Errorf("%+v", s.Result)
		}
		asked := server.Requests()
		// Another run of the same provider shows that timers of this station fire.
		w.task(events.Task{ID: "other", Agent: "asker", Task: "ask"})
		w.await("other", "two failures", func(s run.State) bool { o := s.Outages(); return len(o) > 0 && o[0].Tries >= 2 })
		w.control("other", events.Control{Action: "pause"})
		p := w.await("other", "paused", paused)
		if again := w.state("stopped"); again.Sequence != s.Sequence || asked == 0 || p.GivenUp() != nil {
			t.Errorf("%s", w.story("stopped"))
		}
	})
	t.Run("PLUS-13 PLAN-1 a request for a plan waits as a turn does, over a restart of its executor", func(t *testing.T) {
		t.Parallel()
		plan := `{"steps":[{"id":"s","description":"d","dependencies":[],"critical":false}]}`
		server := llmtest.Serve(t, refusedBy(http.StatusServiceUnavailable, "overloaded_error", "overloaded", "Retry-After", "3"),
			llmtest.Stream(speech(plan)...), whole)
		w := newWorld(t)
		w.tune = func(c *service.Config) {
			c.AnthropicKey, c.AnthropicBaseURL = secret.New(llmtest.Key), server.URL
		}
		w.agent(events.Agent{Name: "planned", Model: "anthropic/claude-x", Plan: "model"}, "")
		w.start(events.Planner, events.Gatekeeper, events.Toolrunner, events.Persister)
		executor := w.start(events.Executor)
		w.task(events.Task{ID: "plan", Agent: "planned", Task: "ask"})
		s := w.await("plan", "waiting", func(s run.State) bool { return len(s.Outages()) > 0 })
		if s.Plan != nil || s.Planning.Outage.Tries != 1 {
			t.Errorf("%+v", s.Planning)
		}
		executor.stop()
		w.start(events.Executor)
		if s = w.ended("plan"); s.Status != events.Completed || s.Step("s") == nil || server.Requests() != 3 {
			t.Errorf("%d requests: %s", server.Requests(), w.story("plan"))
		}
	})
	t.Run("PLUS-13 many runs do not stampede: once the provider is away, hardly any of them asks it", func(t *testing.T) {
		t.Parallel()
		const runs, probes = 12, 6 // a rest doubles from 5 s on
		var up atomic.Bool
		var asked atomic.Int64
		w, _ := providing(t, nil, func(rw http.ResponseWriter, r *http.Request) {
			if up.Load() {
				whole(rw, r)
				return
			}
			asked.Add(1)
			refusedBy(http.StatusServiceUnavailable, "overloaded_error", "overloaded")(rw, r)
		})
		id := func(i int) string { return fmt.Sprint("many-", i) }
		for i := range runs {
			w.task(events.Task{ID: id(i), Agent: "asker", Task: "ask"})
		}
		for i := range runs {
			w.await(id(i), "three tries", func(s run.State) bool { o := s.Outages(); return len(o) > 0 && o[0].Tries >= 3 })
		}
		if got := asked.Load(); got > runs+probes {
			t.Errorf("%d requests of %d runs that tried 3 times each", got, runs)
		}
		up.Store(true)
		for i := range runs {
			if s := w.ended(id(i)); s.Status != events.Completed {
				t.Errorf("%s", w.story(s.HarnessID))
			}
		}
	})
}
