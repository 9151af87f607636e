package toolrunner

import (
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	t.Run("WS-3 a workspace that stays on its machine needs none, and an error of the tool stays what it is", func(t *testing.T) {
		t.Parallel()
		for _, failed := range []error{nil, errors.New("it broke"), runlog.ErrRunEnded} {
			x, err := snapshot(t.Context(), executed{started: &started{}, err: failed})
			if err != nil || !errors.Is(x.err, failed) {
				t.Errorf("got %v, %v, want %v", x.err, err, failed)
			}
		}
	})
	for effect, want := range map[string]tool.Class{call.Once: tool.Unknown, call.Reconcilable: tool.Unknown, call.Idempotent: tool.Transient} {
		t.Run("WS-8 changes that are lost with a takeover end a call of class "+effect, func(t *testing.T) {
			t.Parallel()
			if err := lostChanges(call.Attempt{Call: run.Call{Effect: effect}}); tool.ClassOf(err) != want || !ended(err) {
				t.Errorf("got %v, want the class %s", err, want)
			}
		})
	}
	t.Run("WS-8 a call that read is made again where the workspace is now", func(t *testing.T) {
		t.Parallel()
		if err := lostChanges(call.Attempt{Call: run.Call{Effect: call.Read}}); !later(err) || ended(err) {
			t.Errorf("got %v, want a kernel.Later", err)
		}
	})
}
