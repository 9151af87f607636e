package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

func TestPassing(t *testing.T) {
	t.Parallel()
	t.Run("WS-3 WS-5 a tree that another instance claims while its work is kept elsewhere is that one's, and is not emptied", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		b := l.at("b", nil)
		var other *Visit
		a := l.at("a", nil, func(c *Config) {
			c.AtEnd = true
			c.Rescue = func(ctx context.Context, workspace, _ string) (bool, error) {
				v, err := b.Enter(ctx, workspace, "r2")
				other = v
				return true, err
			}
		})
		v, err := a.Enter(t.Context(), "run/r1", "r1")
		if err != nil {
			t.Fatal(err)
		}
		become(t, v.Dir(), map[string]string{".git": "x"})
		if err := v.Keep(t.Context(), "r1/c1"); err != nil {
			t.Fatal(err)
		}
		v.Leave()
		if _, err := a.Ended(t.Context(), "run/r1", "r1"); err != nil {
			t.Fatal(err)
		}
		if rec := l.record("run/r1"); rec.Owner != "b" || rec.Snapshot == "" {
			t.Errorf("%+v", rec)
		}
		if err := other.Keep(t.Context(), "r2/c1"); err != nil {
			t.Errorf("the new owner: %v", err)
		}
		other.Leave()
	})
	t.Run("WS-3 WS-5 a tree stays for as long as a run is to come back to it, whoever held it, and goes after that", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		now, over := time.Now(), map[string]bool{}
		waits := func(c *Config) {
			c.AtEnd, c.Now = true, func() time.Time { return now }
			c.Over = func(_ context.Context, run string) (bool, error) { return over[run], nil }
		}
		a, b := l.at("a", nil, waits), l.at("b", nil, waits)
		in := func(trees *Trees, run, call string) {
			v, err := trees.Enter(t.Context(), "workflow/w", run)
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), map[string]string{run: "x"})
			if err := v.Keep(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			v.Leave()
		}
		in(a, "r1", "c1")
		in(a, "r2", "c1")
		if err := a.Close(t.Context()); err != nil { // both go on
			t.Fatal(err)
		}
		in(b, "r2", "c2")
		over["r2"] = true
		if _, err := b.Ended(t.Context(), "workflow/w", "r2"); err != nil {
			t.Fatal(err)
		}
		for _, gone := range []bool{false, true} {
			if now = now.Add(25 * time.Hour); gone {
				in(b, "r1", "c2")
				over["r1"] = true
				if _, err := b.Ended(t.Context(), "workflow/w", "r1"); err != nil {
					t.Fatal(err)
				}
				now = now.Add(25 * time.Hour)
			}
			if err := b.Cleanup().Tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rec := l.record("workflow/w"); (rec.Snapshot == "") != gone {
				t.Errorf("gone %v: %+v", gone, rec)
			}
		}
	})
	t.Run("WS-5 what more runs came into than the record names is not taken away", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		now := time.Now()
		a := l.at("a", nil, func(c *Config) {
			c.Now = func() time.Time { return now }
			c.Over = func(context.Context, string) (bool, error) { return true, nil }
		})
		var last string
		for i := range events.MaxWorkspaceRuns + 2 {
			last = fmt.Sprint("r", i)
			v, err := a.Enter(t.Context(), "workflow/w", last)
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), map[string]string{"a": last})
			if err := v.Keep(t.Context(), "c1"); err != nil {
				t.Fatal(err)
			}
			v.Leave()
		}
		for i := range events.MaxWorkspaceRuns + 2 {
			if _, err := a.Ended(t.Context(), "workflow/w", fmt.Sprint("r", i)); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(25 * time.Hour)
		if err := a.Cleanup().Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rec := l.record("workflow/w"); rec.Owner != "" || rec.Snapshot == "" || len(rec.Runs) != events.MaxWorkspaceRuns {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("WS-3 GIT-10 what a lost instance may have alone is kept before its directory goes, and the directory stays where it cannot be", func(t *testing.T) {
		t.Parallel()
		for _, steps := range []bool{true, false} {
			l := newLab(t)
			now, whole, asked := time.Now(), false, 0
			a := l.at("a", nil, func(c *Config) { c.AtSteps = steps })
			v, err := a.Enter(t.Context(), "run/r1", "r1")
			if err != nil {
				t.Fatal(err)
			}
			become(t, v.Dir(), map[string]string{".git": "x"})
			base := filepath.Dir(v.Dir())
			l.kill("a")
			b := l.at("b", nil, func(c *Config) {
				c.AtSteps, c.Root, c.Now = steps, a.cfg.Root, func() time.Time { return now.Add(48 * time.Hour) }
				c.Rescue = func(_ context.Context, workspace, dir string) (bool, error) {
					if asked++; workspace != "run/r1" || dir != v.Dir() {
						t.Errorf("asked about %s at %s", workspace, dir)
					}
					return whole, nil
				}
			})
			for _, whole = range []bool{false, true} {
				if err := b.Cleanup().Tidy(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(base); (err == nil) != (steps && !whole) {
					t.Errorf("at steps %v, all kept %v: %v", steps, whole, err)
				}
			}
			if (asked == 2) != steps {
				t.Errorf("at steps %v: asked %d times", steps, asked)
			}
		}
	})
}
