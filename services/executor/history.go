package executor

import (
	"context"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/history"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// maxKnown is how many histories are kept in memory: each is asked for again with every turn of its run.
const maxKnown = 32

// knownHistories keeps histories by the digest of their newest part. They never change.
type knownHistories struct {
	mu sync.Mutex
	// told by digest, and the digests in the order they were first asked for; both are guarded by mu.
	told  map[string][]llm.Message
	order []string
}

func (k *knownHistories) get(digest string) ([]llm.Message, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.told[digest]
	return m, ok
}

func (k *knownHistories) put(digest string, m []llm.Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.told == nil {
		k.told = map[string][]llm.Message{}
	}
	if _, there := k.told[digest]; there {
		return
	}
	if len(k.order) >= maxKnown {
		delete(k.told, k.order[0])
		k.order = slices.Delete(k.order, 0, 1)
	}
	k.told[digest], k.order = m, append(k.order, digest)
}

// recall puts the conversation that a run began with before its own, and the session's instructions behind the agent's.
func (r *Role) recall(ctx context.Context, s run.State, req *llm.Request) error {
	if s.Created.SessionPrompt != "" {
		req.System += "\n\n" + s.Created.SessionPrompt
	}
	if s.Created.History == nil {
		return nil
	}
	before, err := r.told(ctx, *s.Created.History)
	if err != nil {
		return err
	}
	req.Messages = slices.Concat(before, req.Messages)
	return nil
}

func (r *Role) told(ctx context.Context, newest events.Ref) ([]llm.Message, error) {
	if m, ok := r.known.get(newest.SHA256); ok {
		return m, nil
	}
	m, err := history.Told(ctx, r.cfg.Blobs, &newest, history.MaxTold)
	if err == nil {
		r.known.put(newest.SHA256, m)
	}
	return m, err
}
