package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxKnown is how many histories are kept in memory: each is asked for again with every turn of its run.
const maxKnown = 32

// recalled is a conversation as a model is shown it, and what it takes of the window in tokens.
type recalled struct {
	messages []llm.Message
	tokens   int
}

// knownHistories keeps histories by the digest of their newest part and how much of them is told. They never change.
type knownHistories struct {
	mu sync.Mutex
	// answers by key, and the keys in the order they were first asked for; both are guarded by mu.
	answers map[string]recalled
	order   []string
}

func (k *knownHistories) get(key string) (recalled, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.answers[key]
	return m, ok
}

func (k *knownHistories) put(key string, m recalled) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answers == nil {
		k.answers = map[string]recalled{}
	}
	if _, there := k.answers[key]; there {
		return
	}
	if len(k.order) >= maxKnown {
		delete(k.answers, k.order[0])
		k.order = slices.Delete(k.order, 0, 1)
	}
	k.answers[key], k.order = m, append(k.order, key)
}

// recall returns the conversation that a run began with, as much of it as the model's window has room for beside the
// work.
func (r *Role) recall(ctx context.Context, s run.State, st *run.Step, agent events.Agent) (recalled, error) {
	newest := s.Created.History
	if newest == nil {
		return recalled{}, nil
	}
	// The first time that a provider finds a turn too long, as much is told as before, so that what it counts can be
	// compared from turn to turn.
	most := min(history.Window(agent.ContextWindow), history.Window(2*prompt.SettingsOf(s, agent, st).Window))
	key := fmt.Sprint(newest.SHA256, " ", most)
	if m, ok := r.known.get(key); ok {
		return m, nil
	}
	all, err := history.ToMessages(ctx, r.cfg.Blobs, newest, most)
	if err != nil {
		return recalled{}, err
	}
	m := recalled{messages: llm.FromHistory(all), tokens: history.Tokens(all)}
	r.known.put(key, m)
	return m, nil
}
