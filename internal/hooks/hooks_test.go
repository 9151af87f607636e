package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
)

// answering is a Requester of a test.
type answering func(ctx context.Context, name string, question []byte) ([]byte, error)

func (f answering) AskHook(ctx context.Context, _ events.Service, name string, question []byte) ([]byte, error) {
	return f(ctx, name, question)
}

func asker(t *testing.T, change ...func(*Config)) *Asker {
	t.Helper()
	cfg := Config{Station: "s", Role: events.Gatekeeper, Builtin: Builtin(nil), Dir: t.TempDir()}
	for _, c := range change {
		c(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func program(t *testing.T, a *Asker, script string) events.Hook {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.cfg.Dir, "p"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return events.Hook{ID: "h", On: events.OnPreTool, Command: []string{"p"}, TimeoutMS: 20_000}
}

func ask(t *testing.T, a *Asker, hooks ...events.Hook) []events.HookAnswer {
	t.Helper()
	all, err := a.Ask(t.Context(), a.Due(events.Agent{Hooks: hooks}, events.OnPreTool, "bash"), hook.Question{Run: "r", Call: &hook.Call{ID: "c1-1", Tool: "bash", Effect: "once"}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCommand(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-2 a program answers on its standard output, or blocks with status 2 and its standard error", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ script, answer, message, fault string }{
			{`echo '{"answer":"continue","message":"ok"}'`, "continue", "ok", ""},
			{`echo '{"answer":"interrupt","message":"look"}'`, "interrupt", "look", ""},
			{`echo "not here" >&2; exit 2`, "block", "not here", ""},
			{`exit 3`, "block", "", hook.FaultCrash},
			{`kill -9 $$`, "block", "", hook.FaultCrash},
			{`echo '{"answer":"continue"'`, "block", "", hook.FaultMalformed},
			{`echo '{"answer":"allow"}'`, "block", "", hook.FaultMalformed},
			{`echo '{"message":"continue"}'`, "block", "", hook.FaultMalformed},
			{`cat /dev/zero`, "block", "", hook.FaultFlood},
			{`cat /dev/zero >&2 & echo '{"answer":"continue"}'`, "continue", "", ""},
			{`exec 0<&-; echo '{"answer":"continue"}'`, "continue", "", ""},
		} {
			a := asker(t)
			got := ask(t, a, program(t, a, c.script))
			if len(got) != 1 || got[0].Answer != c.answer || got[0].Fault != c.fault || c.message != "" && got[0].Message != c.message || got[0].Hook != "agent:h" {
				t.Errorf("%s: %+v", c.script, got)
			}
		}
	})
	t.Run("GUARD-2 a program that hangs is ended in time, with all that it started", func(t *testing.T) {
		t.Parallel()
		a := asker(t)
		pids := filepath.Join(a.cfg.Dir, "pids")
		h := program(t, a, fmt.Sprintf("sleep 1000 & echo $! >%[1]s; (setsid sleep 1000 & echo $! >>%[1]s); echo $$ >>%[1]s; sleep 1000", pids))
		h.TimeoutMS = 500
		begin := time.Now()
		got := ask(t, a, h)
		if took := time.Since(begin); took > 15*time.Second || got[0].Fault != hook.FaultTimeout {
			t.Errorf("%+v after %s", got, took)
		}
		b, err := os.ReadFile(pids)
		if err != nil || strings.Count(string(b), "\n") != 3 {
			t.Fatalf("the program did not begin: %v %s", err, b)
		}
		for _, line := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			if alive(pid) {
				t.Errorf("process %d is still there", pid)
			}
		}
	})
	t.Run("GUARD-9 SAFE-11 an agent names programs of the operator's folder only; those of the station may be anywhere", func(t *testing.T) {
		t.Parallel()
		a := asker(t)
		good := program(t, a, `echo '{"answer":"continue"}'`)
		for _, name := range []string{"/bin/true", "../p", "./p", ".", "..", ""} {
			h := good
			h.Command = []string{name}
			if got := ask(t, a, h); got[0].Answer != events.HookBlock || got[0].Fault == "" {
				t.Errorf("%q: %+v", name, got)
			}
		}
		none := asker(t, func(c *Config) { c.Dir = "" })
		if got := ask(t, none, good); got[0].Fault != hook.FaultUnavailable || !strings.Contains(got[0].Message, "INSPAN_HOOKS_DIR") {
			t.Errorf("%+v", got)
		}
		good.Command = []string{filepath.Join(a.cfg.Dir, "p")}
		own := asker(t, func(c *Config) { c.Dir, c.Hooks = "", []events.Hook{good} })
		if got := ask(t, own); len(got) != 1 || got[0].Answer != events.HookContinue || got[0].Hook != "station:h" {
			t.Errorf("%+v", got)
		}
	})
}

// alive reports whether a process runs; one that only waits to be reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestAsk(t *testing.T) {
	t.Parallel()
	on := func(id, subject string) events.Hook {
		return events.Hook{ID: id, On: events.OnPreTool, Subject: subject}
	}
	t.Run("GUARD-4 GUARD-9 all are asked in order, the station's first, until one blocks", func(t *testing.T) {
		t.Parallel()
		var order []string
		a := asker(t, func(c *Config) {
			c.Hooks = []events.Hook{on("b", "yes"), on("a", "yes"), {ID: "other", On: events.OnTurn, Subject: "yes"}, {ID: "write", On: events.OnPreTool, Tool: "write", Subject: "yes"}}
			c.Requests = answering(func(_ context.Context, name string, question []byte) ([]byte, error) {
				var q hook.Question
				if err := json.Unmarshal(question, &q); err != nil {
					return nil, err
				}
				order = append(order, q.Hook)
				return map[string][]byte{"yes": []byte(`{"answer":"continue"}`), "wait": []byte(`{"answer":"interrupt"}`), "no": []byte(`{"answer":"block"}`)}[name], nil
			})
		})
		got := ask(t, a, on("x", "wait"), on("a", "no"), on("z", "yes"))
		if want := "station:b station:a agent:x agent:a"; strings.Join(order, " ") != want || len(got) != 4 {
			t.Errorf("asked %v, want %s", order, want)
		}
		if d, ok := events.Decisive(got); !ok || d.Hook != "agent:a" || d.Answer != events.HookBlock {
			t.Errorf("%+v", d)
		}
	})
	t.Run("GUARD-9 without anybody who could ask, every hook blocks", func(t *testing.T) {
		t.Parallel()
		var none *Asker
		due := none.Due(events.Agent{Hooks: []events.Hook{on("a", "x")}}, events.OnPreTool, "bash")
		got, err := none.Ask(t.Context(), due, hook.Question{})
		if err != nil || len(got) != 1 || got[0].Answer != events.HookBlock || got[0].Fault != hook.FaultUnavailable {
			t.Errorf("%+v %v", got, err)
		}
		if got := ask(t, asker(t), on("a", "x")); got[0].Fault != hook.FaultUnavailable {
			t.Errorf("%+v", got)
		}
	})
	t.Run("GUARD-4 a built-in hook that breaks, errs or says something else blocks", func(t *testing.T) {
		t.Parallel()
		a := asker(t, func(c *Config) {
			c.Builtin = map[string]Func{
				"panics": func(context.Context, hook.Question) (string, string, error) { panic("broken") },
				"errs":   func(context.Context, hook.Question) (string, string, error) { return "continue", "", errors.New("no") },
				"odd":    func(context.Context, hook.Question) (string, string, error) { return "", "", nil },
				"late": func(ctx context.Context, _ hook.Question) (string, string, error) {
					<-ctx.Done()
					return "", "", ctx.Err()
				},
			}
		})
		for name, fault := range map[string]string{"panics": hook.FaultCrash, "errs": hook.FaultCrash, "odd": hook.FaultMalformed, "late": hook.FaultTimeout, "none": hook.FaultUnavailable} {
			if got := ask(t, a, events.Hook{ID: "h", On: events.OnPreTool, Builtin: name, TimeoutMS: 50}); got[0].Answer != events.HookBlock || got[0].Fault != fault {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
	t.Run("SAFE-11 secrets are masked in messages, which are bounded and text", func(t *testing.T) {
		t.Parallel()
		a := asker(t, func(c *Config) {
			c.Mask = func(s string) string { return strings.ReplaceAll(s, "secret", "***") }
			c.Requests = answering(func(context.Context, string, []byte) ([]byte, error) {
				b, err := json.Marshal(map[string]string{"answer": "block", "message": "secret\x00" + strings.Repeat("ü", 5000)})
				return b, err
			})
		})
		if got := ask(t, a, on("a", "x"))[0].Message; strings.Contains(got, "secret") || len(got) > hook.MaxMessage || strings.ContainsAny(got, "\x00\uFFFD") {
			t.Errorf("%d bytes: %.40q", len(got), got)
		}
	})
	t.Run("law 3 the end of the service is no answer", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		a := asker(t, func(c *Config) {
			c.Requests = answering(func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			})
		})
		if got, err := a.Ask(ctx, a.Due(events.Agent{Hooks: []events.Hook{on("a", "x")}}, events.OnPreTool, "bash"), hook.Question{}); err == nil || got != nil {
			t.Errorf("%+v %v", got, err)
		}
	})
	t.Run("bad input: a policy that cannot be asked is an error at start", func(t *testing.T) {
		t.Parallel()
		for _, h := range []events.Hook{{ID: "h", On: "never", Subject: "x"}, {ID: "h", On: events.OnTurn}, {ID: "h", On: events.OnTurn, Builtin: "none"},
			{ID: "h", On: events.OnTurn, Subject: "a.b"}, {ID: "h", On: events.OnTurn, Tool: "bash", Subject: "x"}, {ID: "", On: events.OnTurn, Subject: "x"},
			{ID: "h", On: events.OnTurn, Subject: "x", TimeoutMS: hook.MaxTimeout.Milliseconds() + 1}, {ID: "h", On: events.OnPreTool, Tool: "{", Subject: "x"}} {
			if _, err := New(Config{Hooks: []events.Hook{h}, Builtin: Builtin(nil)}); !errors.Is(err, hook.ErrHook) {
				t.Errorf("%+v: %v", h, err)
			}
		}
	})
}
