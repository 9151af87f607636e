package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// drawnTools are the tools of a station in which random agents call random tools: one of each effect class.
var drawnTools = map[string]tool.Effect{"see": tool.Read, "put": tool.Idempotent, "pay": tool.Once, "move": tool.Reconcilable}

// drawnCall is a call of one of them. Its number is in its arguments, and no other call has it.
type drawnCall struct {
	Tool   string
	N      int
	output string
	fails  bool
}

// callWorld is a station whose tools do what the calls say that were drawn.
type callWorld struct {
	*world
	mu sync.Mutex
	// calls by number, and how often each was carried out; guarded by mu.
	calls map[int]drawnCall
	made  map[int]int
	runs  int
}

func newCallWorld(t *testing.T) *callWorld {
	t.Helper()
	c := &callWorld{calls: map[int]drawnCall{}, made: map[int]int{}}
	var probes []tool.Tool
	for name, effect := range drawnTools {
		probes = append(probes, &probe{name: name, effect: effect, do: func(_ context.Context, _ int64, call tool.Call) (tool.Result, error) { return c.do(name, call) }})
	}
	server := jettest.Server(t, func(c *natsserver.Config) { c.LazySync = true })
	c.world = worldOn(t, jettest.Connect(t, server, jet.Config{}), probes...)
	c.start()
	return c
}

func (c *callWorld) do(name string, call tool.Call) (tool.Result, error) {
	var in struct{ N int }
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.calls[in.N]
	if !ok || d.Tool != name {
		return tool.Result{}, fmt.Errorf("%s was called with the arguments of another: %+v", name, d)
	}
	c.made[d.N]++
	if d.fails {
		return tool.Result{}, tool.Fail(tool.Permanent, "", errors.New("as it was drawn"))
	}
	return tool.Result{Output: d.output}, nil
}

// play has an agent with some of the tools make calls, and returns the run's end and the calls.
func (c *callWorld) play(rt *rapid.T, allowed []string) (run.State, []drawnCall) {
	c.runs++
	id := fmt.Sprintf("drawn-%d", c.runs)
	script := "turns:\n"
	var calls []drawnCall
	turns := rapid.IntRange(1, 2).Draw(rt, "turns")
	for turn := 1; turn <= turns; turn++ {
		script += fmt.Sprintf("  - when: {turn: %d}\n    calls:\n", turn)
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			d := drawnCall{Tool: rapid.SampledFrom(sorted(drawnTools)).Draw(rt, "tool"), N: len(c.calls) + 1,
				output: rapid.String().Draw(rt, "output"), fails: rapid.IntRange(0, 3).Draw(rt, "fails") == 0}
			calls = append(calls, d)
			script += fmt.Sprintf("      - {name: %s, input: {n: %d}}\n", d.Tool, d.N)
			c.mu.Lock()
			c.calls[d.N] = d
			c.mu.Unlock()
		}
	}
	script += fmt.Sprintf("  - when: {turn: %d}\n    text: done\n", turns+1)
	c.agent(events.Agent{Name: id, Tools: allowed}, script)
	c.task(events.Task{ID: id, Agent: id, Task: "go"})
	return c.ended(id), calls
}

func sorted(m map[string]tool.Effect) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// records are those of a call.
func records(s run.State, d drawnCall) []run.CallRecord {
	var all []run.CallRecord
	for _, r := range run.All(s.ToolCallHistory) {
		var in struct{ N int }
		if json.Unmarshal(r.Arguments, &in) == nil && in.N == d.N {
			all = append(all, r)
		}
	}
	return all
}

func TestPROP6(t *testing.T) {
	t.Parallel()
	c := newCallWorld(t)
	t.Run("PROP-6 TOOL-1 TOOL-14 Feature: agent-harnesses, Property 6: a call is carried out if and only if its tool is permitted", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			var allowed []string
			for _, name := range sorted(drawnTools) {
				if rapid.Bool().Draw(rt, name) {
					allowed = append(allowed, name)
				}
			}
			s, calls := c.play(rt, allowed)
			if s.Status != events.Completed {
				rt.Fatalf("got %s: %+v", s.Status, s.Result)
			}
			for _, d := range calls {
				want := 0
				if slices.Contains(allowed, d.Tool) {
					want = 1
				}
				c.mu.Lock()
				got := c.made[d.N]
				c.mu.Unlock()
				list := records(s, d)
				if got != want || len(list) != 1 || (list[0].Code == events.RefusedPermission) != (want == 0) {
					rt.Fatalf("%+v with %q permitted: made %d times, want %d; %+v", d, allowed, got, want, list)
				}
			}
		})
	})
}

func TestPROP7(t *testing.T) {
	t.Parallel()
	c := newCallWorld(t)
	t.Run("PROP-7 TOOL-2 Feature: agent-harnesses, Property 7: a successful call leaves one record with name, arguments, result and a duration above zero", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			s, calls := c.play(rt, sorted(drawnTools))
			if n := s.ToolCallHistory.Len(); n != len(calls) {
				rt.Fatalf("got %d records of %d calls", n, len(calls))
			}
			for _, d := range calls {
				list := records(s, d)
				if len(list) != 1 {
					rt.Fatalf("%+v has %d records", d, len(list))
				}
				r := list[0]
				if r.Success == d.fails {
					rt.Fatalf("%+v is recorded as %+v", d, r)
				}
				if want := strings.ToValidUTF8(d.output, "\uFFFD"); r.CallName != d.Tool || string(r.Arguments) != fmt.Sprintf(`{"n":%d}`, d.N) ||
					!d.fails && r.Result != want || r.DurationMS <= 0 || r.RetryCount != 0 || r.Timestamp.IsZero() {
					rt.Fatalf("%+v is recorded as %+v", d, r)
				}
			}
		})
	})
}
