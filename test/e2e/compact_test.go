package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// page is a tool whose results are long and each end with a word of their own.
type page struct{}

func (page) Spec() tool.Spec {
	return tool.Spec{Name: "page", Description: "reads a page", Effect: tool.Read, Input: json.RawMessage(`{"type":"object"}`)}
}

func (page) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	var in struct{ N, Words int }
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: strings.Repeat("word ", in.Words) + fmt.Sprintf("found-%d-end", in.N)}, nil
}

// narrow is a model with a context window: it refuses what does not fit, as providers do, and counts what it is sent.
// It reads a page a turn, pages in all, and then says what it still knows. It remembers nothing: what it knows is in
// the prompt.
type narrow struct {
	window, pages, words int
	// wordy answers with summaries far longer than asked for.
	wordy bool

	mu sync.Mutex
	// stumble is asked before a summary is given; nil never fails. Guarded by mu.
	stumble func(ctx context.Context, req llm.Request) error
	// largest prompt that was sent, and how many were refused and how many were for summaries; guarded by mu.
	largest, refused, summaries int
}

func (m *narrow) Model(ref string) (llm.Model, string, error) { return m, ref, nil }

var found = regexp.MustCompile(`found-\d+-end`)

// counted is what the model says a request has: a fifth more than the harness would think.
func counted(req llm.Request) int {
	n := prompt.Tokens(req.System)
	for _, t := range req.Tools {
		n += prompt.Tokens(t.Name + t.Description + string(t.Input))
	}
	for _, msg := range req.Messages {
		n += prompt.Tokens(msg.Text)
		for _, c := range msg.Calls {
			n += prompt.Tokens(c.Name + string(c.Input))
		}
		for _, r := range msg.Results {
			n += prompt.Tokens(r.Output)
		}
	}
	return n * 6 / 5
}

func (m *narrow) Ask(ctx context.Context, req llm.Request, _ llm.Sink) (llm.Answer, error) {
	size := counted(req)
	m.mu.Lock()
	stumble := m.stumble
	if req.Meta.Purpose == "compaction" {
		m.summaries++
	}
	if size > m.window {
		m.refused++
	} else {
		m.largest = max(m.largest, size)
	}
	m.mu.Unlock()
	if size > m.window {
		return llm.Answer{}, &llm.Error{Class: llm.TooLong, Err: fmt.Errorf("prompt is too long: %d tokens > %d maximum", size, m.window)}
	}
	a := llm.Answer{Finish: llm.Done, Model: "narrow", Provider: "test", Usage: llm.Usage{Input: size, Output: 20}}
	switch {
	case req.Meta.Purpose == "compaction":
		if stumble != nil {
			if err := stumble(ctx, req); err != nil {
				return llm.Answer{}, err
			}
		}
		all := found.FindAllString(req.Messages[0].Text, -1)
		a.Text = "Pages were read. The first gave " + all[0] + ", the last " + all[len(all)-1] + "."
		if m.wordy {
			a.Text += strings.Repeat(" and so on", 2000)
		}
	case req.Meta.Turn <= m.pages:
		a.Finish = llm.ToolUse
		a.Text = fmt.Sprintf("I read page %d.", req.Meta.Turn)
		a.Calls = []llm.Call{{ID: fmt.Sprint("id", req.Meta.Turn), Name: "page", Input: json.RawMessage(fmt.Sprintf(`{"N":%d,"Words":%d}`, req.Meta.Turn, m.words))}}
	default:
		var whole strings.Builder
		for _, msg := range req.Messages {
			whole.WriteString(msg.Text)
			for _, r := range msg.Results {
				whole.WriteString(r.Output)
			}
		}
		a.Text = strings.Join(found.FindAllString(whole.String(), -1), " ")
	}
	return a, nil
}

// reads gives a station that reads pages with a model of a small window.
func reads(t *testing.T, m *narrow, tune func(*events.Agent)) *world {
	t.Helper()
	w := newWorld(t, page{})
	w.ports.Models = m
	a := events.Agent{Name: "reader", Model: "narrow/test", Tools: []string{"page"}, ContextWindow: m.window, MaxSteps: 200, MaxToolCalls: 200}
	if tune != nil {
		tune(&a)
	}
	w.agent(a, "")
	return w
}

// compactions of a run, in order.
func (w *world) compactions(runID string) []*events.HistoryCompactedData {
	w.t.Helper()
	var out []*events.HistoryCompactedData
	for _, r := range w.events(runID) {
		_, p, err := events.Read(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		if d, ok := p.(*events.HistoryCompactedData); ok {
			out = append(out, d)
		}
	}
	return out
}

func TestCompaction(t *testing.T) {
	t.Parallel()
	t.Run("CONT-13a LOOP-7 LOOP-8 LOOP-9 LOOP-10 LOOP-19 TEST-9c a window of 1000 tokens lasts for a hundred turns", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1000, pages: 100, words: 60}
		w := reads(t, m, nil)
		w.start()
		w.task(events.Task{ID: "long", Agent: "reader", Task: "read all pages"})
		s := w.ended("long")
		if s.Status != events.Completed || s.Turns().Len() != 101 {
			t.Fatalf("%s after %d turns: %+v", s.Status, s.Turns().Len(), s.Result)
		}
		if m.refused > 0 || m.largest > 1000 {
			t.Errorf("%d prompts were too long, the largest that was not has %d tokens", m.refused, m.largest)
		}
		if out := s.Result.Output; !strings.Contains(out, "found-1-end") || !strings.Contains(out, "found-100-end") {
			t.Errorf("what was known at the end: %s", out)
		}
		all := w.compactions("long")
		if len(all) < 5 || len(all) != m.summaries || len(all) > 60 {
			t.Errorf("%d compactions, %d summaries were asked for", len(all), m.summaries)
		}
		spent := 0
		for i, c := range all {
			if c.TokensBefore <= 850 || c.TokensAfter > 850 || c.Window != 1000 || c.Protected >= 850 || c.Protected < 100 {
				t.Errorf("compaction %d: %+v", i, c)
			}
			spent += c.InputTokens + c.OutputTokens
		}
		t.Logf("%d turns, %d compactions, largest prompt %d tokens", s.Turns().Len(), len(all), m.largest)
		turns := 0
		for _, one := range run.All(s.Turns()) {
			turns += one.InputTokens + one.OutputTokens
		}
		if s.Tokens.Total() != turns+spent || spent == 0 {
			t.Errorf("%d tokens counted, the turns took %d and the summaries %d", s.Tokens.Total(), turns, spent)
		}
	})
	t.Run("OBS-23 the request for a summary has a span of its own, with what it used", func(t *testing.T) {
		t.Parallel()
		in := &receiver{}
		server := httptest.NewServer(in)
		t.Cleanup(server.Close)
		w := reads(t, &narrow{window: 1000, pages: 12, words: 60}, nil)
		w.tune = func(c *service.Config) { c.OTLP = server.URL }
		services := w.start()
		w.task(events.Task{ID: "told", Agent: "reader", Task: "read all pages"})
		w.ended("told")
		services.stop()
		in.mu.Lock()
		defer in.mu.Unlock()
		spans := 0
		for _, s := range in.spans {
			if a := attributes(s); strings.Contains(a["inspan.purpose"], "compaction") {
				if spans++; !strings.Contains(a["gen_ai.usage.input_tokens"], "int_value") {
					t.Errorf("%v", a)
				}
			}
		}
		if all := w.compactions("told"); spans != len(all) || spans == 0 {
			t.Errorf("%d spans of %d summaries", spans, len(all))
		}
	})
	t.Run("LOOP-19 summaries that are far too long and results larger than the window do not end a run", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1000, pages: 12, words: 3000, wordy: true}
		w := reads(t, m, nil)
		w.start()
		w.task(events.Task{ID: "wide", Agent: "reader", Task: "read all pages"})
		if s := w.ended("wide"); s.Status != events.Completed || m.refused > 0 {
			t.Errorf("%s, %d prompts too long: %+v", s.Status, m.refused, s.Result)
		}
	})
	t.Run("LOOP-9 a summary that fails is asked for again as a turn is, and a permanent failure ends the step with its reason", func(t *testing.T) {
		t.Parallel()
		var once sync.Once
		m := &narrow{window: 1000, pages: 10, words: 60}
		m.stumble = func(context.Context, llm.Request) (err error) {
			once.Do(func() { err = &llm.Error{Class: llm.Transient, Err: errors.New("overloaded for a moment")} })
			return err
		}
		w := reads(t, m, nil)
		w.start()
		w.task(events.Task{ID: "again", Agent: "reader", Task: "read all pages"})
		if s := w.ended("again"); s.Status != events.Completed || w.count("again")["turn.deferred"] != 1 {
			t.Errorf("%s\n%s", s.Status, w.story("again"))
		}
		m.mu.Lock()
		m.stumble = func(context.Context, llm.Request) error {
			return &llm.Error{Class: llm.Invalid, Err: errors.New("the model is not valid")}
		}
		m.mu.Unlock()
		w.task(events.Task{ID: "never", Agent: "reader", Task: "read all pages"})
		if s := w.ended("never"); s.Status != events.Failed || !strings.Contains(s.Result.Error, "the model is not valid") {
			t.Errorf("%s: %+v", s.Status, s.Result)
		}
	})
	t.Run("LOOP-9 an executor that dies between a summary and its event loses nothing: the next one asks again", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{}, 8) // one for each try
		var lost sync.Once
		m := &narrow{window: 1000, pages: 10, words: 60}
		m.stumble = func(ctx context.Context, _ llm.Request) (err error) {
			lost.Do(func() {
				asked <- struct{}{}
				<-ctx.Done()
				err = ctx.Err()
			})
			return err
		}
		w := reads(t, m, nil)
		w.start(events.Planner, events.Gatekeeper, events.Toolrunner, events.Persister)
		first := w.start(events.Executor)
		w.task(events.Task{ID: "crash", Agent: "reader", Task: "read all pages"})
		select {
		case <-asked:
		case <-w.ctx().Done():
			t.Fatal("no summary was asked for")
		}
		first.stop()
		w.start(events.Executor)
		s := w.ended("crash")
		if s.Status != events.Completed || w.count("crash")["turn.finished"] != 11 {
			t.Errorf("%s\n%s", s.Status, w.story("crash"))
		}
	})
	t.Run("LOOP-19 what can never fit ends the step with a reason of its own; nothing is sent", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1000, pages: 1, words: 1}
		w := reads(t, m, func(a *events.Agent) { a.Prompt = strings.Repeat("be kind ", 1500) })
		w.start()
		w.task(events.Task{ID: "full", Agent: "reader", Task: "read all pages"})
		s := w.ended("full")
		if s.Status != events.Failed || !strings.Contains(s.Result.Error, "context window of narrow/test is 1000") || m.refused+m.largest > 0 {
			t.Errorf("%s, %d refused: %+v", s.Status, m.refused, s.Result)
		}
	})
	t.Run("LOOP-10 LOOP-19 where the window is smaller than anybody knew, the history is compacted to what fits", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1000, pages: 12, words: 60}
		w := reads(t, m, func(a *events.Agent) { a.ContextWindow = 1500 })
		w.start()
		w.task(events.Task{ID: "wrong", Agent: "reader", Task: "read all pages"})
		if s := w.ended("wrong"); s.Status != events.Completed || m.refused == 0 || w.count("wrong")["history.compacted"] == 0 {
			t.Errorf("%s, %d refused\n%s", s.Status, m.refused, w.story("wrong"))
		}
	})
	t.Run("LOOP-10 LOOP-19 a window 8 times smaller than anybody knew costs three refused requests in the whole run, also where the services change", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1000, pages: 40, words: 60}
		w := reads(t, m, func(a *events.Agent) { a.ContextWindow = 8 * m.window })
		first := w.start()
		w.task(events.Task{ID: "learns", Agent: "reader", Task: "read all pages"})
		w.await("learns", "compacted", func(s run.State) bool { return s.Plan != nil && s.Plan.Steps[0].Compacted != nil })
		first.stop()
		w.start()
		s := w.ended("learns")
		if s.Status != events.Completed || s.Turns().Len() != 41 || len(w.compactions("learns")) < 3 {
			t.Fatalf("%s after %d turns, %d compactions: %+v", s.Status, s.Turns().Len(), len(w.compactions("learns")), s.Result)
		}
		if m.refused > 3 || m.refused == 0 || s.Windows["narrow/test"] != 1000 {
			t.Errorf("%d requests were refused, the window is taken for %d\n%s", m.refused, s.Windows["narrow/test"], w.story("learns"))
		}
	})
	t.Run("LOOP-7 compaction can be turned off and its threshold be set", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1_000_000, pages: 10, words: 60}
		w := reads(t, m, func(a *events.Agent) { a.ContextWindow, a.Compaction = 1000, &events.Compaction{Off: true} })
		early := events.Agent{Name: "early", Model: "narrow/test", Tools: []string{"page"}, ContextWindow: 1000, Compaction: &events.Compaction{Threshold: 0.6}}
		w.agent(early, "")
		w.start()
		w.task(events.Task{ID: "off", Agent: "reader", Task: "read all pages"})
		w.task(events.Task{ID: "early", Agent: "early", Task: "read all pages"})
		if s := w.ended("off"); s.Status != events.Completed || w.count("off")["history.compacted"] > 0 {
			t.Errorf("%s\n%s", s.Status, w.story("off"))
		}
		w.ended("early")
		if c := w.compactions("early"); len(c) == 0 || c[0].TokensBefore <= 600 || c[0].TokensBefore > 850 {
			t.Errorf("the first compaction is %+v", c)
		}
	})
	t.Run("LOOP-17 the state holds what the next turn needs: written and read, it gives the same prompt", func(t *testing.T) {
		t.Parallel()
		m := &narrow{window: 1000, pages: 10, words: 60}
		w := reads(t, m, nil)
		w.start()
		w.task(events.Task{ID: "kept", Agent: "reader", Task: "read all pages"})
		w.ended("kept")
		var s run.State
		for i, r := range w.events("kept") {
			next, err := s.Apply(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if s = next; s.Plan == nil {
				continue
			}
			b, err := run.Codec{}.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			back, err := run.Codec{}.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := assembled(back), assembled(s); got != want {
				t.Fatalf("after event %d\n got %s\nwant %s", i+1, got, want)
			}
		}
	})
}

func assembled(s run.State) string {
	st := s.Plan.Steps[0]
	a, _ := s.Agent(st.AssignedAgent)
	b, err := json.Marshal(prompt.Assemble(prompt.Input{State: s, Step: st, Agent: a, System: "sys", User: "work"}))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
