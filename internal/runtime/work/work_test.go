package work

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestMain(m *testing.M) {
	if !runtimetest.Main() {
		m.Run()
	}
}

// log is what a call records, in memory.
type log struct {
	session string
	begun   bool
	// allow decides about what is asked for.
	allow bool
	asked []tool.InnerCall
	done  []tool.Result
	// kept are the files of the session as they were stored last, and stored counts how often they were.
	kept   []tool.InnerFile
	stored int
	// again counts how often the program was started again.
	again int
}

func (l *log) Keep(_ context.Context, files []tool.InnerFile) error {
	l.kept = files
	l.stored++
	return nil
}

func (l *log) Reserve(_ context.Context, q tool.InnerRequest) (tool.InnerGrant, error) {
	return tool.InnerGrant{Request: 1, Output: q.Output}, nil
}

func (l *log) Settle(context.Context, tool.InnerRequest, tool.InnerGrant, tool.InnerUse) error {
	return nil
}

func (l *log) Kept(context.Context) ([]tool.InnerFile, error) { return l.kept, nil }

func (l *log) Earlier() (string, bool) { return l.session, l.begun }

func (l *log) Begin(_ context.Context, session string) error {
	l.session, l.begun = session, true
	return nil
}

func (l *log) Again(context.Context) error {
	l.again++
	return nil
}

func (l *log) Ask(_ context.Context, c tool.InnerCall) (tool.InnerVerdict, error) {
	if !l.begun {
		return tool.InnerVerdict{}, errors.New("the program acts before it was given work")
	}
	l.asked = append(l.asked, c)
	return tool.InnerVerdict{ID: "c1-1-1", Allowed: l.allow, Reason: "no"}, nil
}

func (l *log) Done(_ context.Context, _ string, r tool.Result) error {
	l.done = append(l.done, r)
	return nil
}

func callOf(t *testing.T, l *log, prompt string) tool.Call {
	t.Helper()
	sb, err := host.New("").Open(t.Context(), sandbox.Config{ID: "work", Workspace: t.TempDir(), Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	return tool.Call{Run: "r", ID: "c1-1", Key: "key", Input: []byte(`{"prompt":"` + prompt + `"}`),
		Env: tool.Env{Sandbox: sb, Inner: l, Progress: func(string, []byte) {}, MaxOutput: 1000}}
}

func TestTool(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		t.Run("PLUS-12a a prompt is given to the program over "+driver+" once that is recorded", func(t *testing.T) {
			t.Parallel()
			r := runtimetest.Runtime(driver, t.TempDir())
			l := &log{allow: true}
			c := callOf(t, l, `!say hello\n!bash pwd > at; echo out`)
			got, err := Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), c)
			if err != nil || got.Failed || !strings.Contains(got.Output, "hello") || l.session == "" {
				t.Fatalf("got %+v, %v", got, err)
			}
			if len(l.asked) != 1 || l.asked[0].Tool != "bash" || len(l.done) != 1 || l.done[0].Output != "out\n" {
				t.Errorf("asked for %+v, done %+v", l.asked, l.done)
			}
		})
	}
	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		t.Run("PLUS-12a two questions of a program over "+driver+" about one call end with it", func(t *testing.T) {
			t.Parallel()
			r := runtimetest.Runtime(driver, t.TempDir())
			l := &log{allow: true}
			if got, err := Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), callOf(t, l, `!twice echo out`)); err != nil || got.Failed {
				t.Fatalf("got %+v, %v", got, err)
			}
			if len(l.asked) != 2 || len(l.done) != 2 || l.done[0].Output != "out\n" || l.done[1].Output != "out\n" {
				t.Errorf("asked for %+v, done %+v", l.asked, l.done)
			}
		})
		t.Run("PLUS-12c SAFE-7 that a program over "+driver+" ended is recorded before it is started again", func(t *testing.T) {
			t.Parallel()
			r := runtimetest.Runtime(driver, t.TempDir())
			l := &log{allow: true}
			got, err := Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), callOf(t, l, `!bash if mkdir once; then kill -9 $PPID; fi`))
			if err != nil || got.Failed || l.again != 1 || len(l.asked) != 2 || len(l.done) != 1 {
				t.Errorf("got %+v, %v, %+v", got, err, l)
			}
		})
	}
	t.Run("PLUS-12c a session is gone on with; one that is lost is unknown", func(t *testing.T) {
		t.Parallel()
		r := runtimetest.Runtime(events.DriverACP, t.TempDir())
		l := &log{}
		if _, err := Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), callOf(t, l, "!say one")); err != nil {
			t.Fatal(err)
		}
		got, err := Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), callOf(t, l, `\n!tell`))
		if err != nil || !strings.Contains(got.Output, "prompt 2") {
			t.Errorf("got %+v, %v", got, err)
		}
		l.session = "lost"
		if _, err = Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), callOf(t, l, "!say two")); tool.ClassOf(err) != tool.Unknown {
			t.Errorf("got %v", err)
		}
	})
	for _, driver := range []string{events.DriverACP, events.DriverClaude} {
		t.Run("PLUS-12c a session over "+driver+" is gone on with in a sandbox that never had it, by what was stored", func(t *testing.T) {
			t.Parallel()
			r := runtimetest.Homely(driver)
			l := &log{allow: true}
			program := Tool(events.Agent{Runtime: &r}, nil)
			if _, err := program.Run(t.Context(), callOf(t, l, `!bash echo one\n!say end`)); err != nil || l.stored < 2 {
				t.Fatalf("stored %d times, %v", l.stored, err)
			}
			got, err := program.Run(t.Context(), callOf(t, l, `\n!tell`))
			if err != nil || !strings.Contains(got.Output, "prompt 2") {
				t.Errorf("got %+v, %v", got, err)
			}
			kept := l.kept
			for _, bad := range [][]tool.InnerFile{nil, {{Path: "../out", Data: []byte("9")}}, {{Path: kept[0].Path + "/../x", Data: []byte("9")}}} {
				l.kept = bad
				c := callOf(t, l, `\n!tell`)
				if _, err := program.Run(t.Context(), c); tool.ClassOf(err) != tool.Unknown {
					t.Errorf("with %+v: got %v", bad, err)
				}
			}
		})
	}
	t.Run("PLUS-12c what a lost call needs is told by what is recorded of it", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			log     log
			resumes bool
			again   bool
		}{{log{}, false, true}, {log{begun: true, session: "s"}, true, true}, {log{begun: true, session: "s"}, false, false},
			{log{begun: true}, true, false}} {
			r := runtimetest.Runtime(events.DriverACP, "")
			r.Resumes = c.resumes
			done, _, err := Tool(events.Agent{Runtime: &r}, nil).(tool.Verifier).Verify(t.Context(), tool.Call{Env: tool.Env{Inner: &c.log}})
			if done || (err == nil) != c.again {
				t.Errorf("%+v: %v, %v", c, done, err)
			}
		}
	})
	t.Run("PLUS-12d C43 a program that asks no one is started only where a sandbox isolates it", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			gate    string
			mode    sandbox.Mode
			network bool
			want    bool
		}{{events.RuntimeAsks, sandbox.Host, true, true}, {events.RuntimeAsksNot, sandbox.Host, false, false},
			{events.RuntimeAsksNot, sandbox.Bwrap, true, false}, {events.RuntimeAsksNot, sandbox.Bwrap, false, true},
			{"", sandbox.Host, false, false}} {
			p := prompting{agent: events.Agent{Runtime: &events.Runtime{Gate: c.gate}, Sandbox: events.Sandbox{Network: c.network}}}
			if err := p.confined(c.mode); (err == nil) != c.want {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
	t.Run("SAFE-1 ID-6a a secret that is missing is told of by its name, and one that is there is passed on", func(t *testing.T) {
		t.Parallel()
		r := runtimetest.Runtime(events.DriverACP, t.TempDir())
		r.Env["A_TOKEN"] = "secret:mine"
		l := &log{allow: true}
		if _, err := Tool(events.Agent{Runtime: &r}, nil).Run(t.Context(), callOf(t, l, "!say x")); err == nil || !strings.Contains(err.Error(), "secret mine") || l.begun {
			t.Errorf("got %v", err)
		}
		c := callOf(t, l, `!bash printenv A_TOKEN > got`)
		if _, err := Tool(events.Agent{Runtime: &r}, map[string]secret.Value{"mine": secret.New("open sesame")}).Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(c.Env.Sandbox.Workspace() + "/got"); err != nil || string(b) != "open sesame\n" {
			t.Errorf("got %q, %v", b, err)
		}
	})
}
