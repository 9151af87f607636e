package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	st, err := mem.New("s", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, a := t.Context(), &service.Agents{KV: st.KV("config")}
	def := events.Agent{Name: "x", Digest: "1", Model: "m", Prompt: "p", Tools: []string{"read"}}
	put := func(t *testing.T, def events.Agent, state string, fields ...string) {
		t.Helper()
		for _, does := range []func(context.Context, events.Agent) (service.Registration, error){a.Compare, a.Put} {
			r, err := does(ctx, def)
			if err != nil || r.Agent != "x" || r.State != state || !slices.Equal(r.Fields, fields) {
				t.Fatalf("%+v %v, want %s %q", r, err, state, fields)
			}
		}
		if got, err := a.Agent(ctx, "x"); err != nil || got.Digest != def.Digest {
			t.Fatalf("%+v %v", got, err)
		}
	}
	t.Run("ID-10 ID-11 registering says what is new, which fields changed, and what is the same", func(t *testing.T) {
		put(t, def, service.AgentNew)
		put(t, def, service.AgentUnchanged)
		def.Digest = "2"
		put(t, def, service.AgentChanged, "digest")
		def.Digest, def.Prompt, def.Tools, def.MaxSteps = "3", "q", nil, 7
		put(t, def, service.AgentChanged, "max_steps", "prompt", "tools")
		if err := a.KV.Put(ctx, "agent.x", []byte("{ no JSON")); err != nil {
			t.Fatal(err)
		}
		put(t, def, service.AgentChanged, "max_steps", "model", "name", "prompt")
		if err := a.Remove(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Agent(ctx, "x"); !errors.Is(err, kernel.ErrNotFound) {
			t.Error(err)
		}
		put(t, def, service.AgentNew)
	})
	t.Run("ID-11 what is not read back is not reported as registered", func(t *testing.T) {
		lost := &service.Agents{KV: deaf{a.KV}}
		def.Prompt = "another"
		ctx, cancel := context.WithCancel(ctx)
		cancel() // it would look for a while
		if _, err := lost.Put(ctx, def); err == nil {
			t.Error("it is reported as registered")
		}
	})
}

// deaf takes everything and stores nothing.
type deaf struct{ kernel.KV }

func (deaf) Put(context.Context, string, []byte) error { return nil }
