package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestColonyRoles(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/relay.prompt": "---\nname: relay\nmodel: scripted/relay\ntools: [bash]\nsandbox: {mode: host, network: true}\n" +
			"guards:\n  - {id: ask, tool: bash, match: {argv: [echo, \"**\"]}, action: ask, reason: a person decides}\n---\nYou work in relay.\n",
		"scripts/relay.yaml":          "turns:\n  - when: {turn: 1}\n    text: I ask.\n    calls:\n      - {name: bash, input: {command: echo waited}}\n  - when: {turn: 2}\n    text: Done.\n",
		"agents/roles/worker.toml":    "agent = \"relay\"\nnames = [\"nux\", \"ada\"]\n[env]\nTEAM = \"all\"\n",
		"agents/web/worker/role.toml": "max_instances = 1\n",
		"agents/roles/lead.toml":      "agent = \"relay\"\n",
	} {
		at := filepath.Join(d.dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.up()
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, args...)
	}
	show := func(t *testing.T, agent string, want func(events.Mailbox) bool) (m events.Mailbox) {
		t.Helper()
		for m = decode[events.Mailbox](t, say(t, 0, nil, "agents", "show", agent, "--json").out); !want(m); {
			pause(t)
			if t.Context().Err() != nil {
				t.Fatalf("%+v", m)
			}
			m = decode[events.Mailbox](t, say(t, 0, nil, "agents", "show", agent, "--json").out)
		}
		return m
	}
	t.Run("ID-1 C32 the roles of a station are listed, and each value of one has its file and line", func(t *testing.T) {
		say(t, 0, []string{"web/worker", "relay", "built-in", "0 of 1", "lead", "any number"}, "agents", "roles")
		say(t, 0, []string{"max_instances", "project web/worker/role.toml:1", "system roles/worker.toml:1", "env.TEAM", "nux, ada", "built-in"}, "agents", "roles", "web/worker")
		say(t, 5, []string{"there is no role", "web/worker"}, "agents", "roles", "web/workr")
	})
	t.Run("WORK-10 WORK-11 ID-1 a person gives work to a role; one above its quota waits, and the screen says for whom", func(t *testing.T) {
		say(t, 2, []string{"no role of a project"}, "agents", "dispatch", "worker", "Fix it.")
		say(t, 2, []string{"no role of a project"}, "agents", "dispatch", "queue/worker", "Fix it.")
		say(t, 4, []string{"unknown_role"}, "agents", "dispatch", "web/nobody", "Fix it.")
		say(t, 0, []string{"web/worker/nux has the work"}, "agents", "dispatch", "web/worker", "Fix it.")
		show(t, "web/worker/nux", func(m events.Mailbox) bool { return m.Holder != nil && m.Holder.Started })
		say(t, 0, []string{"web/worker/ada has the work"}, "agents", "dispatch", "web/worker", "Fix that, too.")
		show(t, "web/worker/ada", func(m events.Mailbox) bool { return len(m.Pending) == 1 && m.Holder == nil })
		for out := say(t, 0, nil, "colony", "--once", "--json").out; ; out = say(t, 0, nil, "colony", "--once", "--json").out {
			pause(t)
			v := decode[struct {
				Agents []struct{ Agent, State, Doing string }
			}](t, out)
			waits := ""
			for _, a := range v.Agents {
				if a.State == "waiting" {
					waits += a.Agent + " " + a.Doing
				}
			}
			if waits == "web/worker/ada waits: 1 of 1 of its role are at work (web/worker/nux)" {
				break
			} else if waits != "" || t.Context().Err() != nil {
				t.Fatalf("%q\n%s", waits, out)
			}
		}
		say(t, 0, []string{"waits", "1 of 1 of its role are at work (web/worker/nux)"}, "agents", "show", "web/worker/ada")
	})
	t.Run("CONT-15 the whole colony stops, supervisory roles when no one else is at work any more", func(t *testing.T) {
		say(t, 0, nil, "agents", "register", "web/lead/eve", "--agent", "relay")
		say(t, 2, []string{"--grace"}, "colony", "stop", "--grace", "0s")
		say(t, 0, []string{"3 agents stopped, 1 of supervisory roles last"}, "colony", "stop")
		lead := show(t, "web/lead/eve", func(m events.Mailbox) bool { return m.Life.Stopped })
		nux := show(t, "web/worker/nux", func(m events.Mailbox) bool { return m.Life.Stopped && m.Holder == nil })
		if past := nux.Life.Past; len(past) != 1 || !past[0].At.Before(lead.UpdatedAt) {
			t.Errorf("the lead was stopped at %s, the run of the worker ended as %+v", lead.UpdatedAt, past)
		}
	})
}
