package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// Scene is what the users of a play want, and what the models answer.
type Scene struct {
	Runs []SceneRun
	// Rude users answer twice, late, against themselves and with stale hashes; they pause, resume, adjust and stop.
	Rude bool
	// Leave is how many of a hundred gates no one ever answers.
	Leave int
	// Follow lets workspaces follow their runs, kept at the ends of calls or steps; Clean takes them away with their
	// runs.
	Follow string
	Clean  bool
	// Meek hooks let everything go on.
	Meek bool
	// Changed is from which time on, and until when, a server describes its tools otherwise when it is asked.
	Changed [2]int
	// Always has people approve later calls, too, and take that back at any time.
	Always bool
	// Keep is how long servers live on after the calls that use them.
	Keep time.Duration
	// Stops has somebody stop a run as soon as it has a child.
	Stops bool
	// Item has the runs be those of a work item, and no task is sent. Clears has somebody clear its second binding.
	Item, Clears bool
	// Moves says when somebody goes on with the branch of each child in a worktree: before it is merged, or after that.
	Moves string
	// Pauses has somebody pause a run as soon as it has a child.
	Pauses bool
	// Agent has the runs be those of a named agent, which mail wakes; Order is what somebody asks of it while its first
	// run works. With Item it is given the work item.
	Agent bool
	Order string
	// Cuts has somebody interrupt the first answer of each run.
	Cuts bool
}

// SceneRun is one run.
type SceneRun struct {
	ID       string
	Steps    []SceneStep
	Autonomy int
	Budget   int
	// Asks makes the agent's rules send "pay" to a person.
	Asks bool
	// Planned lets a model make the plan.
	Planned bool
	Retries int
	// Session that the run names; empty for none.
	Session string
	// Terms of the gates of its agent.
	Terms events.GateTerms
	// Long makes the first step longer than the window of the agent's model.
	Long bool
	// Direct marks its task as short.
	Direct bool
	// Git lets it work in git.
	Git bool
	// Hooks of its agent.
	Hooks []SceneHook
	// Server gives its agent the tools of a server.
	Server bool
	// Checked gives its agent acceptance checks; Unfit is how often the second of them fails before it passes.
	Checked bool
	Unfit   int
	// Judged has a schema and a person decide, too, after the commands.
	Judged bool
	// Stray lets something change the files after the checks, where the run works in git.
	Stray bool
	// Kid makes it one that a step of another run is given to. Refuses has its model decline to work.
	Kid, Refuses bool
	// Reviewer is the agent that makes the last check of the run, Verdict what a run of that agent answers.
	Reviewer, Verdict string
	// OfItem makes it one of the work item's.
	OfItem bool
	// OfAgent makes it one of the named agent.
	OfAgent bool
	// Dream has it take checkpoints by the clock.
	Dream bool
}

// SceneStep is one step and its turns: the calls of each, and after the last turn an answer.
type SceneStep struct {
	ID       string
	Needs    []string
	Critical bool
	Turns    [][]SceneCall
	// Kid is the agent of the child that the step is given to; empty for none.
	Kid string
	// Tree gives that child a worktree.
	Tree bool
	// Flow is the control flow of the step. Where it has several attempts, the model refuses the first.
	Flow *events.StepFlow
}

// SceneCall is one call and how its attempts behave.
type SceneCall struct {
	Tool string
	N    int
	// Fails is how many first attempts fail in passing; Breaks ends it for good; Slow takes 40 s, longer than the ack
	// wait and the lease; Wrong has arguments that do not fit.
	Fails  int
	Breaks bool
	Slow   bool
	Wrong  bool
	// Command is what it says that it does; a grant may cover those that begin in the same way.
	Command string
	// Kid is the agent that a call of delegate gives work to, or the id that one of delegate_result asks for.
	Kid        string
	Background bool
}

func (c SceneCall) input() json.RawMessage {
	if c.Kid != "" {
		return c.delegation()
	}
	if c.Wrong {
		return json.RawMessage(`{"n":"nonsense"}`)
	}
	if c.Command != "" {
		return json.RawMessage(fmt.Sprintf(`{"n":%d,"command":%q}`, c.N, c.Command))
	}
	return json.RawMessage(fmt.Sprintf(`{"n":%d}`, c.N))
}

// small is the world that is played through exhaustively: one run, two steps, one gate, two calls.
func small(first, second string) Scene {
	return Scene{Runs: []SceneRun{{ID: "r1", Autonomy: 3, Budget: 10, Retries: 2, Steps: []SceneStep{
		{ID: "a", Turns: [][]SceneCall{{{Tool: first, N: 1}}}},
		{ID: "b", Needs: []string{"a"}, Critical: true, Turns: [][]SceneCall{{{Tool: second, N: 2}}}},
	}}}}
}

// sceneOf draws a scene.
func sceneOf(seed uint64) Scene {
	rng := rand.New(rand.NewPCG(seed, 0x5ce7e))
	s := Scene{Rude: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		s.Leave = 50
	}
	n := 0
	for i := range 1 + rng.IntN(3) {
		r := SceneRun{ID: fmt.Sprintf("r%d", i+1), Autonomy: 1 + rng.IntN(5), Budget: []int{100, 100, 3, 1}[rng.IntN(4)],
			Asks: rng.IntN(3) == 0, Planned: rng.IntN(5) == 0, Retries: rng.IntN(4)}
		for j := range 1 + rng.IntN(3) {
			st := SceneStep{ID: string(rune('a' + j)), Critical: rng.IntN(3) == 0}
			for k := range j {
				if rng.IntN(2) == 0 {
					st.Needs = append(st.Needs, string(rune('a'+k)))
				}
			}
			for range rng.IntN(3) {
				var turn []SceneCall
				for range 1 + rng.IntN(3) {
					n++
					turn = append(turn, callOf(rng, n))
				}
				st.Turns = append(st.Turns, turn)
			}
			r.Steps = append(r.Steps, st)
		}
		s.Runs = append(s.Runs, r)
	}
	s.more(seed, n)
	s.direct(seed)
	s.git(seed)
	s.trees(seed)
	s.hooks(seed)
	s.servers(seed)
	s.checks(seed)
	s.dreams(seed)
	return s
}

// more draws what runs have beside steps and calls: a session they share, terms of their gates, a call that
// a person is asked about, a step that is compacted.
func (s *Scene) more(seed uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, 0x5e551))
	shared := rng.IntN(3) == 0 && len(s.Runs) > 1
	for i := range s.Runs {
		r := &s.Runs[i]
		if shared {
			r.Session = theSession
		}
		if rng.IntN(2) == 0 {
			r.Terms = termsOf(rng)
		}
		if rng.IntN(3) == 0 {
			n++
			r.Asks, r.Autonomy = true, 4
			r.Steps[0].Turns = append([][]SceneCall{{{Tool: "pay", N: n}}}, r.Steps[0].Turns...)
		}
		if rng.IntN(8) > 0 {
			continue
		}
		r.Long, r.Steps[0].Turns = true, nil
		for range longTurns {
			n += 2
			r.Steps[0].Turns = append(r.Steps[0].Turns, []SceneCall{{Tool: "look", N: n - 1}, {Tool: "look", N: n}}[:1+rng.IntN(2)])
		}
	}
}

func callOf(rng *rand.Rand, n int) SceneCall {
	c := SceneCall{Tool: []string{"look", "put", "note", "pay", "nothing"}[min(rng.IntN(17)/4, 4)], N: n}
	switch rng.IntN(10) {
	case 0, 1:
		c.Fails = 1 + rng.IntN(3)
	case 2:
		c.Slow = true
	case 3:
		c.Breaks = true
	case 4:
		c.Wrong = rng.IntN(3) == 0
	}
	return c
}

// run finds a run of the scene.
func (s Scene) run(id string) *SceneRun {
	for i := range s.Runs {
		if s.Runs[i].ID == id {
			return &s.Runs[i]
		}
	}
	return nil
}

// call finds the call whose argument is n.
func (s Scene) call(n int) (SceneCall, bool) {
	for _, r := range s.Runs {
		for _, st := range r.Steps {
			for _, turn := range st.Turns {
				for _, c := range turn {
					if c.N == n {
						return c, true
					}
				}
			}
		}
	}
	return SceneCall{}, false
}

// agents are the definitions the station knows, one for each run, as JSON.
func (s Scene) agents() map[string][]byte {
	all := map[string][]byte{}
	for i, r := range s.Runs {
		a := events.Agent{Name: "agent-" + r.ID, Digest: fmt.Sprintf("%064d", i+1), Model: "sim/model",
			Tools: []string{"look", "put", "note", "pay"}, Retry: events.Retry{MaxRetries: &r.Retries}}
		a.Gates, a.Hooks, a.Accept = r.Terms, r.declared(), r.accept()
		if r.Server {
			a.MCP = []events.MCPServer{pinned()}
			for _, name := range rank(serverTools) {
				a.Tools = append(a.Tools, serverCall+name)
			}
		}
		if a.Delegates = r.gives(); len(a.Delegates) > 0 {
			a.Tools = append(a.Tools, events.ToolDelegate, events.ToolDelegateResult)
		}
		if r.Long {
			a.ContextWindow, a.MaxOutputTokens = smallWindow, 100
		}
		if r.Planned {
			a.Plan = "model"
		}
		if r.Kid && r.Direct {
			a.Harness = events.HarnessOff
		}
		if r.Asks {
			a.Guards = []events.Rule{{ID: "ask-pay", Tool: "pay", Action: "ask", Reason: "it costs money"}}
		}
		b, err := json.Marshal(a)
		if err != nil {
			panic(err) // a fault of the simulation itself
		}
		all[a.Name] = b
	}
	return all
}

func (r SceneRun) task() []byte {
	t := events.Task{ID: r.ID, Agent: "agent-" + r.ID, Task: "do " + r.ID, Autonomy: &r.Autonomy, MaxToolCalls: &r.Budget, Session: r.Session}
	switch {
	case r.Direct:
		short := false
		t.LongRunning = &short
	case !r.Planned:
		t.Plan = r.plan()
	}
	if r.Git {
		inGit(&t)
	}
	if r.Dream {
		inDream(&t)
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // a fault of the simulation itself
	}
	return b
}

func (r SceneRun) plan() *events.TaskPlan {
	p := &events.TaskPlan{}
	for _, st := range r.Steps {
		step := events.TaskStep{ID: st.ID, Description: "step " + st.ID, Needs: st.Needs, Critical: st.Critical, Flow: st.Flow}
		if st.Flow.Checks() {
			step.Accept = r.accept()
			step.Accept.MaxAttempts = 1
		}
		if st.Kid != "" {
			step.Agent, step.Child = st.Kid, events.ChildOwn
			if st.Tree {
				step.Child = events.ChildWorktree
			}
		}
		p.Steps = append(p.Steps, step)
	}
	return p
}

// answer is what the model says when it is asked.
func (s Scene) answer(req llm.Request) llm.Answer {
	m := req.Meta
	a := s.said(m)
	if r := s.run(m.Run); r.Long && m.Purpose == "turn" && len(a.Calls) > 0 {
		a.Text = chatter
	}
	a.Usage = usage(req, a)
	return a
}

func (s Scene) said(m llm.Meta) llm.Answer {
	a := llm.Answer{Text: "done", Finish: llm.Done, Model: "model", Provider: "sim"}
	r := s.run(m.Run)
	if r.Judged {
		a.Text = `{"done":true}`
	}
	if r.Verdict != "" {
		a.Text = r.Verdict
	}
	if m.Purpose == "compaction" {
		a.Text = "it looked here and there"
		return a
	}
	if m.Purpose == "plan" {
		b, err := json.Marshal(r.plan())
		if err != nil {
			panic(err) // a fault of the simulation itself
		}
		a.Text = string(b)
		return a
	}
	if r.Refuses {
		return refused(a)
	}
	whole, number := m.Step, ""
	if id, part := events.Whole(m.Step); part && s.step(r, m.Step) == nil {
		whole, number = id, m.Step[len(id)+1:]
	}
	for _, st := range r.Steps {
		if st.ID == whole && st.Flow != nil && st.Flow.Retry.Again() && number == "1" {
			return refused(a)
		}
		if st.ID != whole || m.Turn > len(st.Turns) {
			continue
		}
		a.Finish, a.Text = llm.ToolUse, "calls"
		for i, c := range st.Turns[m.Turn-1] {
			a.Calls = append(a.Calls, llm.Call{ID: fmt.Sprintf("p%d-%d", m.Turn, i), Name: c.Tool, Input: c.input()})
		}
	}
	return a
}
