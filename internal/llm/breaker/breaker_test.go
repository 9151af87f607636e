package breaker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/breaker"
)

// provider answers as it is told and counts.
type provider struct {
	mu    sync.Mutex
	asked int
	do    func(ctx context.Context, sink llm.Sink) error
}

func (p *provider) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	p.mu.Lock()
	p.asked++
	p.mu.Unlock()
	if err := p.do(ctx, sink); err != nil {
		return llm.Answer{}, err
	}
	return llm.Answer{Text: "ok", Model: req.Model}, nil
}

var down = &llm.Error{Class: llm.Transient, Status: 503, Err: errors.New("oops")}

func fails(err error) func(context.Context, llm.Sink) error {
	return func(context.Context, llm.Sink) error { return err }
}

func ask(t *testing.T, m llm.Model, model string) (time.Duration, error) {
	t.Helper()
	_, err := m.Ask(t.Context(), llm.Request{Model: model}, nil)
	after, _ := llm.Retryable(err)
	return after, err
}

// broken is a breaker that has just stopped asking "a".
func broken(t *testing.T) (*provider, *breaker.Model) {
	t.Helper()
	p := &provider{do: fails(down)}
	m := breaker.New("p", p)
	for i := range breaker.Limit {
		after, err := ask(t, m, "a")
		if errors.Is(err, breaker.ErrResting) || !errors.Is(err, down.Err) {
			t.Fatalf("failure %d: got %v, want the provider's own", i, err)
		}
		if last := i == breaker.Limit-1; (after >= breaker.BaseRest) != last {
			t.Fatalf("failure %d: got a wait of %v", i, after)
		}
	}
	return p, m
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-7 a model that fails again and again is not asked, and the error says why and for how long", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, m := broken(t)
			after, err := ask(t, m, "a")
			if !errors.Is(err, breaker.ErrResting) || p.asked != breaker.Limit || !strings.Contains(err.Error(), "p/a") || !strings.Contains(err.Error(), "oops") {
				t.Errorf("got %v after %d requests", err, p.asked)
			}
			if after < breaker.BaseRest || after > breaker.BaseRest*5/4 {
				t.Errorf("got a wait of %v", after)
			}
			if _, err := ask(t, m, "b"); errors.Is(err, breaker.ErrResting) {
				t.Errorf("another model: got %v", err)
			}
		})
	})
	t.Run("PLUS-7 one request tries it again, and its first piece lets the others through", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, m := broken(t)
			<-time.After(breaker.BaseRest)
			speak, end := make(chan struct{}), make(chan struct{})
			p.do = func(_ context.Context, sink llm.Sink) error {
				<-speak
				sink(llm.Delta{Text: "I"})
				<-end
				return nil
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := ask(t, m, "a"); err != nil {
					t.Errorf("the one that tries: %v", err)
				}
			})
			synctest.Wait()
			if _, err := ask(t, m, "a"); !errors.Is(err, breaker.ErrResting) {
				t.Errorf("beside it: got %v, want a refusal", err)
			}
			close(speak)
			synctest.Wait()
			p.do = fails(nil)
			if _, err := ask(t, m, "a"); err != nil {
				t.Errorf("after the first piece: %v", err)
			}
			close(end)
			wg.Wait()
		})
	})
	t.Run("PLUS-7 the rest doubles up to its limit while the tries fail", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, m := broken(t)
			rest := breaker.BaseRest
			for range 8 {
				<-time.After(rest)
				before := p.asked
				after, err := ask(t, m, "a")
				rest = min(2*rest, breaker.MaxRest)
				if errors.Is(err, breaker.ErrResting) || p.asked != before+1 || after < rest || after > rest*5/4 {
					t.Fatalf("got %v and a wait of %v, want %v", err, after, rest)
				}
			}
		})
	})
	t.Run("PLUS-7 a wait that the provider asked for holds for all, and is spread", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := &provider{do: fails(&llm.Error{Class: llm.RateLimit, Status: 429, RetryAfter: time.Minute, Err: errors.New("slow down")})}
			m := breaker.New("p", p)
			waits := map[time.Duration]bool{}
			for range 20 {
				after, err := ask(t, m, "a")
				if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.RateLimit || after < time.Minute || after > 75*time.Second {
					t.Fatalf("got %v with a wait of %v", err, after)
				}
				waits[after] = true
			}
			if p.asked != 1 || len(waits) < 10 {
				t.Errorf("got %d requests and %d different waits", p.asked, len(waits))
			}
			<-time.After(time.Minute)
			p.do = fails(nil)
			if _, err := ask(t, m, "a"); err != nil {
				t.Errorf("after the wait: %v", err)
			}
		})
	})
	t.Run("many that fail at one time count as the few that it takes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			m := breaker.New("p", &provider{do: func(context.Context, llm.Sink) error { <-gate; return down }})
			var wg sync.WaitGroup
			for range 10 * breaker.Limit {
				wg.Go(func() {
					if after, err := ask(t, m, "a"); errors.Is(err, breaker.ErrResting) || after > breaker.BaseRest*5/4 {
						t.Errorf("got %v and a wait of %v", err, after)
					}
				})
			}
			synctest.Wait()
			close(gate)
			wg.Wait()
			if after, err := ask(t, m, "a"); !errors.Is(err, breaker.ErrResting) || after > breaker.BaseRest*5/4 {
				t.Errorf("got %v and a wait of %v", err, after)
			}
		})
	})
	t.Run("refused requests and contexts that end say nothing against a provider", func(t *testing.T) {
		t.Parallel()
		p := &provider{do: fails(&llm.Error{Class: llm.Invalid, Status: 400, Err: errors.New("bad")})}
		m := breaker.New("p", p)
		for range 2 * breaker.Limit {
			if _, err := ask(t, m, "a"); errors.Is(err, breaker.ErrResting) {
				t.Fatal(err)
			}
		}
		p.do = fails(down)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 * breaker.Limit {
			if _, err := m.Ask(ended, llm.Request{Model: "a"}, nil); errors.Is(err, breaker.ErrResting) {
				t.Fatal(err)
			}
		}
	})
	t.Run("a try whose context ends leaves room for the next one", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, m := broken(t)
			<-time.After(breaker.BaseRest)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := m.Ask(ended, llm.Request{Model: "a"}, nil); errors.Is(err, breaker.ErrResting) {
				t.Fatal(err)
			}
			p.do = fails(nil)
			if _, err := ask(t, m, "a"); err != nil {
				t.Errorf("got %v", err)
			}
		})
	})
}
