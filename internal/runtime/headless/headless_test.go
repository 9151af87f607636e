package headless_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/runtime/headless"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/pkg/events"
)

func TestMain(m *testing.M) {
	if !runtimetest.Main() {
		m.Run()
	}
}

func TestExam(t *testing.T) {
	t.Parallel()
	t.Run("claude", func(t *testing.T) { t.Parallel(); runtimetest.Exam(t, headless.Claude{}, events.DriverClaude) })
	t.Run("codex", func(t *testing.T) { t.Parallel(); runtimetest.Exam(t, headless.Codex{}, events.DriverCodex) })
}

func TestHook(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-12a SAFE-1 a program that takes no hook before each call is given no prompt", func(t *testing.T) {
		t.Parallel()
		r := runtimetest.Hookless(runtimetest.Runtime(events.DriverClaude, t.TempDir()))
		c, err := headless.Claude{}.Start(t.Context(), runtimetest.Spec(t, r))
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, runtime.ErrProtocol) || !strings.Contains(err.Error(), "there are no hooks") {
			t.Errorf("got %v", err)
		}
	})
}
