package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// byHand is a model that says what a test tells it to, when it tells it to. An empty piece ends the answer, "!" cuts
// it.
type byHand struct{ pieces chan llm.Delta }

func (m byHand) Model(string) (llm.Model, string, error) { return m, "hand", nil }

func (m byHand) Ask(ctx context.Context, _ llm.Request, sink llm.Sink) (llm.Answer, error) {
	var text strings.Builder
	for {
		select {
		case p := <-m.pieces:
			switch p.Text {
			case "":
				if p.Thinking == "" {
					return llm.Answer{Text: text.String(), Finish: llm.Done, Model: "hand", Provider: "hand", Raw: json.RawMessage(`{}`)}, nil
				}
			case "!":
				return llm.Answer{}, &llm.Error{Class: llm.Transient, Err: errors.New("cut in the middle")}
			}
			text.WriteString(p.Text)
			sink(p)
		case <-ctx.Done():
			return llm.Answer{}, ctx.Err()
		}
	}
}

// viewer gathers what a watcher is told.
type viewer struct {
	mu   sync.Mutex
	news chan struct{}
	// text is guarded by mu: events in brackets, then what was said.
	text string
	last string
}

func (v *viewer) receive(p client.Piece) {
	v.mu.Lock()
	if p.Again {
		v.text, v.last = "", ""
	}
	if p.Missed {
		v.text += "<missed>"
	}
	if p.Text != "" && p.Event != v.last {
		v.text, v.last = v.text+"["+p.Event+"]", p.Event
	}
	if v.text += p.Text; p.Done {
		v.text += "[end " + p.Error + "]"
	}
	v.mu.Unlock()
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// sees waits until a watcher was told exactly this.
func (v *viewer) sees(w *world, want string) {
	w.t.Helper()
	ctx := w.ctx()
	for {
		v.mu.Lock()
		got := v.text
		v.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-v.news:
		case <-ctx.Done():
			w.t.Fatalf("the watcher sees %q, want %q", got, want)
		}
	}
}

func (w *world) viewer(runID string) *viewer {
	w.t.Helper()
	c, err := operator.On(w.conn, "test")
	if err != nil {
		w.t.Fatal(err)
	}
	v := &viewer{news: make(chan struct{}, 1)} // one is enough: it only says "look again"
	stop, err := c.Stream(w.ctx(), runID, v.receive)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stop)
	return v
}

func TestStream(t *testing.T) {
	t.Parallel()
	hand := byHand{make(chan llm.Delta)}
	w := worldOn(t, jettest.Connect(t, jettest.Server(t), jet.Config{DrainGrace: time.Second}))
	w.ports.Models = hand
	w.agent(events.Agent{Name: "hand", Model: "hand/hand", Prompt: "You speak."}, "")
	first := w.start()

	t.Run("CONT-5 OBS-9 OBS-10 PLUS-8 a watcher hears tokens and thinking as they come, one who joins late all of it so far", func(t *testing.T) {
		w := w.on(t)
		early := w.viewer("said")
		w.task(events.Task{ID: "said", Agent: "hand", Task: "speak"})
		hand.pieces <- llm.Delta{Thinking: "let me see. "}
		hand.pieces <- llm.Delta{Text: "Once upon "}
		early.sees(w, "[thinking]let me see. [token]Once upon ")
		late := w.viewer("said")
		late.sees(w, "[thinking]let me see. [token]Once upon ")
		hand.pieces <- llm.Delta{Text: "a time."}
		for _, v := range []*viewer{early, late} {
			v.sees(w, "[thinking]let me see. [token]Once upon a time.")
		}
		hand.pieces <- llm.Delta{}
		for _, v := range []*viewer{early, late} {
			v.sees(w, "[thinking]let me see. [token]Once upon a time.[end ]")
		}
		if s := w.ended("said"); s.Result.Output != "Once upon a time." {
			t.Errorf("the log says %q", s.Result.Output)
		}
		w.task(events.Task{ID: "unseen", Agent: "hand", Task: "speak"})
		for _, d := range []llm.Delta{{Thinking: "let me see. "}, {Text: "Once upon "}, {Text: "a time."}, {}} {
			hand.pieces <- d
		}
		w.ended("unseen")
		if got, want := w.said("said"), w.said("unseen"); !slices.Equal(got, want) {
			t.Errorf("a run that is watched has other events:\n got %s\nwant %s", got, want)
		}
	})
	t.Run("PLUS-8 after a retry of the turn what came before is forgotten", func(t *testing.T) {
		w := w.on(t)
		v := w.viewer("again")
		w.task(events.Task{ID: "again", Agent: "hand", Task: "speak"})
		hand.pieces <- llm.Delta{Text: "I thin"}
		hand.pieces <- llm.Delta{Text: "!"}
		v.sees(w, "[token]I thin[end model: transient: cut in the middle]")
		hand.pieces <- llm.Delta{Text: "I know."}
		v.sees(w, "[token]I know.")
		hand.pieces <- llm.Delta{}
		w.ended("again")
	})
	t.Run("PLUS-8 the services may be others before the answer is whole: it is asked for again, and said from its beginning", func(t *testing.T) {
		w := w.on(t)
		v := w.viewer("moved")
		w.task(events.Task{ID: "moved", Agent: "hand", Task: "speak"})
		hand.pieces <- llm.Delta{Text: "half of"}
		v.sees(w, "[token]half of")
		first.stop()
		w.start()
		hand.pieces <- llm.Delta{Text: "the whole"}
		v.sees(w, "[token]the whole")
		w.viewer("moved").sees(w, "[token]the whole")
		hand.pieces <- llm.Delta{}
		if s := w.ended("moved"); s.Result.Output != "the whole" {
			t.Errorf("the log says %q", s.Result.Output)
		}
	})
}

func TestStreamingOff(t *testing.T) {
	t.Parallel()
	t.Run("OBS-13 nothing is streamed where streaming is off, and the run is the same", func(t *testing.T) {
		t.Parallel()
		hand := byHand{make(chan llm.Delta)}
		w := newWorld(t)
		w.ports.Models = hand
		w.tune = func(c *service.Config) { c.Streaming = "false" }
		w.agent(events.Agent{Name: "hand", Model: "hand/hand", Prompt: "You speak."}, "")
		w.start()
		v := w.viewer("quiet")
		w.task(events.Task{ID: "quiet", Agent: "hand", Task: "speak"})
		hand.pieces <- llm.Delta{Text: "unheard"}
		hand.pieces <- llm.Delta{}
		if s := w.ended("quiet"); s.Result.Output != "unheard" {
			t.Errorf("the log says %q", s.Result.Output)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.text != "" {
			t.Errorf("a watcher was told %q", v.text)
		}
	})
}
