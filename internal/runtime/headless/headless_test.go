package headless_test

import (
	"testing"

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
