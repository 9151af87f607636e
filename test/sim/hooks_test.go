package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/hooks"
	"github.com/inspan/inspan/pkg/events"
)

// SceneHook is somebody who is asked at one point of a run.
type SceneHook struct {
	ID, On, Tool string
	// Moods are what it does, one picked for each question; asked again it may do something else.
	Moods []string
}

// What a hook does beside its three answers.
const (
	moodLate      = "late"
	moodMalformed = "rubbish"
	moodFlood     = "flood"
	moodNone      = "nobody"
)

var (
	points   = []string{events.OnRunStart, events.OnTurn, events.OnPreTool, events.OnPostTool, events.OnRunStop}
	allMoods = []string{events.HookContinue, events.HookContinue, events.HookContinue, events.HookContinue, events.HookContinue, events.HookContinue,
		events.HookContinue, events.HookInterrupt, events.HookInterrupt, events.HookBlock, moodLate, moodMalformed, moodFlood, moodNone}
)

// smallHooks is the small world with somebody who is asked at each point: all interrupt at first, then let go on.
func smallHooks(first, second string) Scene {
	s := small(first, second)
	for i, on := range points {
		s.Runs[0].Hooks = append(s.Runs[0].Hooks, SceneHook{ID: fmt.Sprint("h", i), On: on, Moods: []string{events.HookInterrupt}})
	}
	return s
}

// hooks draws who is asked in which run.
func (s *Scene) hooks(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x400c5))
	for i := range s.Runs {
		if rng.IntN(4) > 0 {
			continue
		}
		for j := range 1 + rng.IntN(3) {
			h := SceneHook{ID: fmt.Sprint("h", j), On: points[rng.IntN(len(points))], Moods: allMoods}
			if h.On == events.OnPreTool || h.On == events.OnPostTool {
				h.Tool = []string{"", "pay", "put", "look"}[rng.IntN(4)]
			}
			s.Runs[i].Hooks = append(s.Runs[i].Hooks, h)
		}
	}
}

// declared are the hooks of a run as its agent has them.
func (r SceneRun) declared() []events.Hook {
	var all []events.Hook
	for _, h := range r.Hooks {
		all = append(all, events.Hook{ID: h.ID, On: h.On, Tool: h.Tool, Subject: r.ID + "-" + h.ID})
	}
	return all
}

// asking is one question to a hook and what came of it. The journal of them outlives every process.
type asking struct {
	run  string
	name string
	q    hook.Question
	// said is the answer that counts, empty where there was none; heard is true where it reached the one who asked.
	said     string
	received bool
	// events is how many the log of the run had then.
	events uint64
}

// same reports whether two questions are one question asked again.
func (a asking) same(q hook.Question) bool {
	return a.run == q.Run && a.q.On == q.On && a.q.Step == q.Step && a.q.Turn == q.Turn && callOfQuestion(a.q) == callOfQuestion(q)
}

func callOfQuestion(q hook.Question) string {
	if q.Call == nil {
		return ""
	}
	return q.Call.ID
}

// questions asks the hooks of the scene.
type questions struct{ l *life }

var _ hooks.Requester = questions{}

// AskHook implements hooks.Requester.
func (q questions) AskHook(ctx context.Context, _ events.Service, name string, question []byte) ([]byte, error) {
	w := q.l.p.w
	a := asking{name: "agent:" + name[strings.LastIndex(name, "-")+1:]}
	if err := json.Unmarshal(question, &a.q); err != nil {
		return nil, err
	}
	a.run = a.q.Run
	what := fmt.Sprintf("%s %s of %s %s%s %s", a.q.On, name, a.run, a.q.Step, callOfQuestion(a.q), endOf(a.q))
	switch v := q.l.step(ctx, opWorld, false, "ask %s", what); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case v != made:
		return nil, errTrouble
	}
	mood := w.mood(name, a)
	w.tale.line(q.l.p.name, fmt.Sprintf("? %s says %s", what, mood))
	w.tale.counts["hooks "+mood]++
	if mood == moodLate {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if slices.Contains([]string{events.HookContinue, events.HookBlock, events.HookInterrupt}, mood) {
		a.said = mood
	}
	a.events = w.state[a.run].Sequence
	w.asked = append(w.asked, a)
	at := len(w.asked) - 1
	switch v := q.l.step(ctx, opWorld, false, "hear %s", what); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case v != made:
		return nil, errTrouble
	}
	w.asked[at].received = true
	switch mood {
	case moodNone:
		return nil, hooks.ErrNoResponders
	case moodFlood:
		return nil, hooks.ErrFlood
	case moodMalformed:
		return []byte(`{"answer":"contin`), nil
	}
	return json.Marshal(map[string]string{"answer": mood, "message": "it is in the mood"})
}

func endOf(q hook.Question) string {
	if q.End == nil {
		return ""
	}
	return q.End.Status
}

// mood is what a hook does now. The same question may find it in another mood.
func (w *world) mood(name string, a asking) string {
	moods, n := w.play.Scene.moods(a.run, name), 0
	if w.play.Scene.Meek {
		return events.HookContinue
	}
	for _, old := range w.asked {
		if old.name == a.name && old.same(a.q) {
			n++
		}
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %s %s %s %d %s %d", w.play.Seed, name, a.run, a.q.On, a.q.Step, a.q.Turn, callOfQuestion(a.q), n)
	return moods[h.Sum64()%uint64(len(moods))]
}

func (s Scene) moods(runID, name string) []string {
	for _, h := range s.run(runID).Hooks {
		if runID+"-"+h.ID == name {
			return h.Moods
		}
	}
	return []string{moodNone}
}

// meek reports whether all hooks let everything go on.
func (s Scene) meek() bool {
	return s.Meek || !slices.ContainsFunc(s.Runs, func(r SceneRun) bool { return len(r.Hooks) > 0 })
}

// held reports whether a hook may hold a run back before it begins.
func (r *SceneRun) held() bool {
	return slices.ContainsFunc(r.Hooks, func(h SceneHook) bool { return h.On == events.OnRunStart })
}
