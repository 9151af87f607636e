package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/runtime"
)

func TestStuck(t *testing.T) {
	t.Parallel()
	const after = 10 * time.Minute
	for name, c := range map[string]struct {
		// does is what the program does before it is silent for good; then is how long after that it counts as stuck.
		does func(p *pulse)
		want bool
	}{
		"that says nothing":             {func(*pulse) {}, true},
		"that is at a call for an hour": {func(p *pulse) { p.tool(runtime.Tool{ID: "1"}) }, false},
		"that waits for a person":       {func(p *pulse) { p.waits() }, false},
		"whose call has ended":          {func(p *pulse) { p.tool(runtime.Tool{ID: "1"}); p.tool(runtime.Tool{ID: "1", Ended: true}) }, true},
		"that was answered":             {func(p *pulse) { p.waits()() }, true},
		"with one of two calls at an end": {func(p *pulse) {
			p.tool(runtime.Tool{ID: "1"})
			p.tool(runtime.Tool{ID: "2"})
			p.tool(runtime.Tool{ID: "1", Ended: true})
		}, false},
	} {
		t.Run("PLUS-12f a program "+name+" is stuck only where it has no reason to be silent", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var p pulse
				ctx, stop := p.watch(t.Context(), after)
				defer stop()
				for range 6 { // for an hour in all it says a little
					<-time.After(after - time.Second)
					p.beat()
				}
				if err := context.Cause(ctx); err != nil {
					t.Fatalf("while it says something: %v", err)
				}
				c.does(&p)
				<-time.After(after - time.Second)
				synctest.Wait()
				if err := context.Cause(ctx); err != nil {
					t.Fatalf("too early: %v", err)
				}
				<-time.After(time.Hour)
				synctest.Wait()
				if err := context.Cause(ctx); errors.Is(err, runtime.ErrStuck) != c.want {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	t.Run("PLUS-12f without a threshold no program is stuck", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var p pulse
			ctx, stop := p.watch(t.Context(), 0)
			<-time.After(100 * time.Hour)
			synctest.Wait()
			if ctx.Err() != nil {
				t.Error(context.Cause(ctx))
			}
			stop()
		})
	})
}
