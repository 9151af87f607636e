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

func TestCodexModel(t *testing.T) {
	t.Parallel()
	prompt := func(t *testing.T, spec runtime.Spec, text string) runtime.Reply {
		t.Helper()
		c, err := headless.Codex{}.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		r, err := c.Prompt(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Run("PLUS-12e the program is led to its model by its configuration, and has the token in a variable", func(t *testing.T) {
		t.Parallel()
		r := runtimetest.Runtime(events.DriverCodex, t.TempDir())
		r.Model = &events.RuntimeModel{API: events.FormOpenAI, BaseEnv: "A_BASE", KeyEnv: "A_KEY"}
		spec := runtimetest.Spec(t, r)
		spec.Env = []string{"A_KEY=the-token", "A_BASE=http://127.0.0.1:1/v1"}
		got := prompt(t, spec, "!args").Text
		if !strings.Contains(got, `model_provider="station"`) || !strings.Contains(got, `base_url="http://127.0.0.1:1/v1",env_key="A_KEY"`) ||
			strings.Contains(got, "the-token") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("PLUS-12c an attempt that did not succeed is no failure of what is done in the end", func(t *testing.T) {
		t.Parallel()
		r := prompt(t, runtimetest.Spec(t, runtimetest.Runtime(events.DriverCodex, t.TempDir())), "!reconnect\n!say done")
		if r.Failed || !strings.Contains(r.Text, "done") {
			t.Errorf("got %+v", r)
		}
	})
}
