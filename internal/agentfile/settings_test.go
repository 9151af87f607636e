package agentfile

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

var someKeys = map[string]Form{"station": FormText, "nats.url": FormText, "nats.replicas": FormWhole, "service.drain": FormDuration,
	"commands.env": FormList, "harness.workspace.path": FormText, "harness.sandbox.mode": FormText}

func TestSettings(t *testing.T) {
	t.Parallel()
	t.Run("ID-2 each value of a configuration file has its key and line", func(t *testing.T) {
		t.Parallel()
		s, warnings, err := ReadSettings("config.yaml", []byte("station: lab\nnats:\n  url: nats://x\n  replicas: 3\ncommands:\n  env: [A=1, B=2]\nharness:\n  max_steps: 7\n  workspace: {path: ./w}\nx-mine: 1\n"), someKeys)
		if err != nil || len(warnings) != 0 {
			t.Fatal(err, warnings)
		}
		var got []string
		for _, e := range s.Entries {
			got = append(got, e.Key+"="+e.Value)
		}
		want := "station=lab nats.url=nats://x nats.replicas=3 commands.env=A=1,B=2 harness.max_steps=7 harness.workspace.path=./w"
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %v", got, want)
		}
		if s.Entries[4].Line != 8 {
			t.Errorf("max_steps is on line %d, want 8", s.Entries[4].Line)
		}
	})
	for _, tc := range []struct{ name, text, want string }{
		{"ID-2 an unknown key is named with its line and the nearest one", "station: a\nharness:\n  max_step: 5\n", "config.yaml:3: harness.max_step: unknown key (want max_steps); did you mean max_steps?"},
		{"ID-2 an unknown part is named", "nast:\n  url: x\n", "did you mean nats?"},
		{"ID-2 a key in one line is not left to others in silence", "nats.url: x\n", "written in one line"},
		{"ID-2 a value of the wrong type is named", "nats:\n  replicas: many\n", "config.yaml:2: nats.replicas: the value has the wrong type"},
		{"ID-2 a default of agents is checked as in their files", "harness:\n  max_steps: 0\n", "1 to 10000"},
		{"ID-2 LOOP-1 the harness is on or off", "harness:\n  enabled: agentic\n", "true or false"},
		{"ID-2 no YAML", "a: [", "the file is not YAML"},
		{"ID-2 no mapping", "- a\n", "the file must be keys and values"},
		{"ID-2 an anchor", "station: &a x\n", "anchors"},
		{"ID-2 a comma in a list", "commands:\n  env: ['A=1,2']\n", "without a comma"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := ReadSettings("config.yaml", []byte(tc.text), someKeys); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("ID-2 size at the limit and above", func(t *testing.T) {
		t.Parallel()
		pad := "#" + strings.Repeat("x", MaxSettings-2) + "\n"
		if _, _, err := ReadSettings("c", []byte(pad), someKeys); err != nil {
			t.Error(err)
		}
		if _, _, err := ReadSettings("c", []byte(pad+"\n"), someKeys); err == nil {
			t.Error("a larger file was read")
		}
	})
}

func defaults(t *testing.T, text string) Defaults {
	t.Helper()
	s, _, err := ReadSettings("config.yaml", []byte(text), someKeys)
	if err != nil {
		t.Fatal(err)
	}
	return s.Defaults
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	const bare, own = "---\nmodel: scripted/x\n---\nhi\n", "---\nmodel: scripted/x\nharness:\n  enabled: true\n  max_steps: 9\n  budget: {tool_calls: 4}\nsandbox: {mode: host}\n---\nhi\n"
	d := defaults(t, "harness:\n  max_steps: 21\n  timeout: 2m\n  autonomy: 2\n  retry: {max_retries: 0}\n  budget: {tool_calls: 33}\n  workspace: {path: x, mode: sandbox}\n  sandbox: {network: {enabled: true}}\n")
	t.Run("ID-12 an agent that says nothing has the defaults of the configuration", func(t *testing.T) {
		t.Parallel()
		a, _, err := d.Parse("a", []byte(bare))
		if err != nil {
			t.Fatal(err)
		}
		if a.MaxSteps != 21 || a.TimeoutMS != 120000 || a.Autonomy != 2 || a.MaxToolCalls != 33 || a.Retry.MaxRetries == nil || *a.Retry.MaxRetries != 0 || a.Sandbox.Mode != "bwrap" || !a.Sandbox.Network {
			t.Errorf("%+v", a)
		}
	})
	t.Run("ID-12 what an agent file says overrides the defaults key by key", func(t *testing.T) {
		t.Parallel()
		a, warnings, err := d.Parse("a", []byte(own))
		if err != nil || len(warnings) != 0 {
			t.Fatal(err, warnings)
		}
		if a.MaxSteps != 9 || a.MaxToolCalls != 4 || a.Sandbox.Mode != "host" || a.TimeoutMS != 120000 || a.Autonomy != 2 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("ID-2 the nearer file wins key by key and neither is changed", func(t *testing.T) {
		t.Parallel()
		near := defaults(t, "harness:\n  budget: {tool_calls: 5}\n")
		for range 2 {
			a, _, err := near.Over(d).Parse("a", []byte(bare))
			if err != nil || a.MaxToolCalls != 5 || a.MaxSteps != 21 {
				t.Errorf("%v %+v", err, a)
			}
			b, _, err := near.Parse("a", []byte(bare))
			if err != nil || b.MaxSteps != 0 || b.MaxToolCalls != 5 {
				t.Errorf("%v %+v", err, b)
			}
		}
		if a, _, err := near.Over(Defaults{}).Parse("a", []byte(bare)); err != nil || a.MaxToolCalls != 5 {
			t.Errorf("%v %+v", err, a)
		}
	})
	t.Run("LOOP-1 ID-12 an agent file without harness has the one of the configuration, any other its own", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ config, front, want string }{
			{"enabled: false", "", events.HarnessOff}, {"enabled: true", "", events.HarnessOn}, {"max_steps: 3", "", ""},
			{"enabled: false", "harness_config: {max_steps: 3}\n", events.HarnessOff},
			{"enabled: false", "harness: {max_steps: 3}\n", events.HarnessOn}, {"enabled: false", "harness: agentic\n", events.HarnessOn},
			{"enabled: true", "harness:\n", events.HarnessOff}, {"enabled: true", "harness: {enabled: false}\n", events.HarnessOff},
		} {
			a, _, err := defaults(t, "harness: {"+c.config+"}\n").Parse("a", []byte("---\nmodel: scripted/x\n"+c.front+"---\nhi\n"))
			if err != nil || a.Harness != c.want {
				t.Errorf("%+v: %v, %q", c, err, a.Harness)
			}
		}
	})
	t.Run("ID-12 no defaults change nothing", func(t *testing.T) {
		t.Parallel()
		a, _, err := Defaults{}.Parse("a", []byte(own))
		b, _, err2 := Parse("a", []byte(own))
		if err != nil || err2 != nil || a.MaxSteps != b.MaxSteps || a.Digest != b.Digest || a.TimeoutMS != 0 {
			t.Errorf("%v %v %+v %+v", err, err2, a, b)
		}
	})
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte("station: a\nharness: {max_steps: 3, sandbox: {network: {enabled: true}}}\n"))
	f.Add([]byte("nats: {url: [}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := ReadSettings("config.yaml", data, someKeys)
		if err != nil {
			return
		}
		for _, e := range s.Entries {
			if e.Key == "" || e.Line < 1 {
				t.Errorf("entry %+v", e)
			}
		}
		if _, _, err := s.Defaults.Parse("a", []byte("---\nmodel: scripted/x\n---\nhi\n")); err != nil {
			t.Errorf("defaults that were accepted break a sound agent: %v", err)
		}
	})
}
