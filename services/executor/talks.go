package executor

import (
	"context"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/core/prompt"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/run"
)

// DefaultTalks bounds the conversations that are cached for the next turns of their steps, in bytes. The last one stays
// where it alone is longer: a step that makes its conversation anew each turn costs the square of its turns.
const DefaultTalks = 16 << 20

// talk is the conversation of a step, and the messages that were made of it: the next turn adds to both. Messages that
// were given to a model are not written again.
type talk struct {
	prompt.Talk
	entries  []prompt.Entry
	before   []llm.Message
	messages []llm.Message
	bytes    int
}

// made reports how many entries of a prompt the messages are made of, behind the conversation that the run began with.
// It is none where they are of other ones.
func (t *talk) made(before []llm.Message, entries []prompt.Entry) int {
	n := len(t.entries)
	same := len(before) == len(t.before) && (len(before) == 0 || &before[0] == &t.before[0])
	if !same || n > len(entries) || !slices.Equal(t.entries, entries[:n]) {
		return 0
	}
	return n
}

// goOn returns the messages of a prompt, behind those of the conversation that the run began with. Only entries that
// were not there at the turn before are made into messages.
func (t *talk) goOn(ctx context.Context, before []llm.Message, entries []prompt.Entry,
	exchange func(context.Context, prompt.Exchange) ([]llm.Message, error)) ([]llm.Message, error) {
	n := t.made(before, entries)
	if n == 0 {
		t.before, t.messages, t.bytes = before, append(make([]llm.Message, 0, len(before)+2*len(entries)), before...), 0
	}
	had := len(t.messages)
	for _, e := range entries[n:] {
		if e.Exchange == nil {
			t.messages = append(t.messages, llm.Message{Role: llm.User, Text: e.Text})
			continue
		}
		m, err := exchange(ctx, *e.Exchange)
		if err != nil {
			t.entries = nil // some of them have messages now
			return nil, err
		}
		t.messages = append(t.messages, m...)
	}
	t.entries, t.bytes = entries, t.bytes+sizeOf(t.messages[had:])
	return slices.Clip(t.messages), nil
}

// talks keeps conversations between the turns of their steps. It is a cache: one that is not there is made anew.
type talks struct {
	// most is how many bytes there may be.
	most int
	mu   sync.Mutex
	// byStep and bytes are guarded by mu.
	byStep map[stepOf]*talk
	bytes  int
}

type stepOf struct{ run, step string }

// take removes the conversation of a step, so that no one else adds to it; an empty one where there is none.
func (k *talks) take(run, step string) *talk {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.byStep[stepOf{run, step}]
	if t == nil {
		return &talk{}
	}
	k.drop(stepOf{run, step}, t)
	return t
}

// put caches a conversation. Others make room for it.
func (k *talks) put(run, step string, t *talk) {
	of := stepOf{run, step}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.byStep[of]; old != nil {
		k.drop(of, old)
	}
	for other, o := range k.byStep { // any
		if k.bytes+t.bytes <= k.most {
			break
		}
		k.drop(other, o)
	}
	if k.byStep == nil {
		k.byStep = map[stepOf]*talk{}
	}
	k.byStep[of] = t
	k.bytes += t.bytes
}

// forget drops the conversations of a step that has ended.
func (k *talks) forget(s run.State, step string) {
	if st := s.Step(step); st == nil || st.Final || s.Status.Ended() {
		k.take(s.HarnessID, step)
	}
}

// drop is called with mu held.
func (k *talks) drop(of stepOf, t *talk) {
	delete(k.byStep, of)
	k.bytes -= t.bytes
}

// messageBytes is about what a message takes beside its texts, with its entry.
const messageBytes = 512

func sizeOf(messages []llm.Message) (n int) {
	for _, m := range messages {
		n += messageBytes + len(m.Text) + len(m.Raw)
		for _, c := range m.Calls {
			n += len(c.Input)
		}
		for _, r := range m.Results {
			n += len(r.Output)
			for _, i := range r.Images {
				n += len(i.Data)
			}
		}
	}
	return n
}
