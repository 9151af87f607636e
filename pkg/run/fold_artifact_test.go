package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestArtifactSaved(t *testing.T) {
	t.Parallel()
	ref := runtest.Ref("a", "c1-1", "bash")
	under := func() *runtest.Builder {
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Turn(1, "a", "one call", runtest.Asked(1, 1, "bash", `{"command":"make"}`)), runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		return b
	}
	refused := func(t *testing.T, b *runtest.Builder, d *events.ArtifactSavedData, want string) {
		t.Helper()
		s := b.State()
		f := events.Event{Time: s.UpdatedAt, Identity: s.Identity, Sequence: s.Sequence + 1, PrevHash: s.Hash, Source: events.Source("main", events.Toolrunner)}
		if _, err := s.ApplyEvent(f, d, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	t.Run("ART-2 the records of a run are in its state, and a new attempt may say its own", func(t *testing.T) {
		t.Parallel()
		b := under()
		b.Append(runtest.Saved(b.State(), ref, b.State().Open["c1-1"].Fence))
		if s := b.State(); s.Artifacts.Len() != 1 || !s.Open["c1-1"].Made {
			t.Errorf("%+v", run.Slice(s.Artifacts))
		}
		b.Append(runtest.CallBegun(ref, 2))
		if b.State().Open["c1-1"].Made {
			t.Error("the second attempt has made nothing yet")
		}
	})
	t.Run("ART-2 law 3: what an attempt made counts only with its fence, while the call is open", func(t *testing.T) {
		t.Parallel()
		b := under()
		fence := b.State().Open["c1-1"].Fence
		refused(t, b, runtest.Saved(b.State(), ref, fence-1), "fence")
		b.Append(runtest.CallDone(ref, fence, "ok"))
		refused(t, b, runtest.Saved(b.State(), ref, fence), "is not open")
	})
	t.Run("ART-7 a state never has more than its limit", func(t *testing.T) {
		t.Parallel()
		b := under()
		d := runtest.Saved(b.State(), ref, b.State().Open["c1-1"].Fence)
		for len(d.Artifacts) <= run.MaxArtifacts {
			d.Artifacts = append(d.Artifacts, d.Artifacts[0])
		}
		refused(t, b, d, "limit is 1000")
	})
}
