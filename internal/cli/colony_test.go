package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func TestColony(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, text := range map[string]string{
		"agents/relay.prompt": "---\nname: relay\ndescription: Works in relay\nmodel: scripted/relay\ntools: [bash, handoff, work_current]\nsandbox: {mode: host, network: true}\n" +
			"guards:\n  - {id: ask, tool: bash, match: {argv: [echo, \"**\"]}, action: ask, reason: a person decides}\n---\nYou work in relay.\n",
		"scripts/relay.yaml": "turns:\n  - when: {turn: 1, message: {contains: \"The question:\"}}\n    text: I look.\n    calls:\n      - {name: bash, input: {command: printenv HOME}}\n" +
			"  - when: {turn: 2}\n    text: It said that it asks.\n" +
			"  - when: {turn: 1, message: {contains: \"| half of it\"}}\n    text: The report is done.\n" +
			"  - when: {turn: 1, message: {contains: \"Mail has come\"}}\n    text: I ask.\n    calls:\n      - {name: bash, input: {command: echo waited}}\n",
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.up()
	const agent = "web/worker/nux"
	say := func(t *testing.T, code int, words []string, args ...string) said {
		t.Helper()
		sub := *d
		sub.t = t
		return sub.want(code, words, args...)
	}
	until := func(t *testing.T, want func(events.Mailbox) bool) (m events.Mailbox) {
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
	t.Run("CLI-14a what is wrong is said with what to do, and inspan agents lists definitions as before", func(t *testing.T) {
		say(t, 0, []string{"inspan agents register"}, "agents", "list")
		say(t, 0, []string{"No named agents"}, "colony")
		say(t, 0, []string{"relay", "scripted/relay"}, "agents")
		say(t, 2, []string{"is not the address of an agent"}, "agents", "stop", "queue/x")
		say(t, 2, []string{"needs the name of its definition"}, "agents", "register", agent)
		say(t, 5, []string{"inspan agents list"}, "agents", "show", agent)
	})
	t.Run("CLI-14a CONT-2 CONT-3 a named agent is registered, started with a text, shown, and its gate stands on the screen of the colony", func(t *testing.T) {
		say(t, 0, []string{"Registered " + agent}, "agents", "register", agent, "--agent", "relay")
		say(t, 4, []string{"address_exists"}, "agents", "register", agent, "--agent", "relay")
		say(t, 0, []string{"Registered pool/worker/ada"}, "agents", "register", "pool/worker", "--names", "ada,eve", "--agent", "relay")
		say(t, 0, []string{"Registered pool/worker/eve"}, "agents", "register", "pool/worker", "--names", "ada,eve", "--agent", "relay")
		say(t, 4, []string{"each name of the pool is taken", "address_exists"}, "agents", "register", "pool/worker", "--names", "ada,eve", "--agent", "relay")
		say(t, 4, []string{"bad_move", "inspan mail send"}, "agents", "handoff", agent)
		say(t, 0, nil, "agents", "start", agent, "write the report")
		m := until(t, func(m events.Mailbox) bool { return m.Holder != nil && m.Holder.Started })
		for gates := 0; gates == 0; {
			v := decode[struct {
				Agents []struct {
					Agent, State, Run string
					Gates             int
				}
			}](t, say(t, 0, nil, "colony", "--once", "--json").out)
			if len(v.Agents) != 3 || v.Agents[0].Agent != agent || v.Agents[0].Run != m.Holder.Run {
				t.Fatalf("%+v", v)
			}
			gates = v.Agents[0].Gates
		}
		say(t, 0, []string{agent, "1 gate", "gate: ", "working"}, "colony", "--once")
		say(t, 0, []string{agent, m.Holder.Run, "relay"}, "agents", "list")
	})
	t.Run("CLI-14a CONT-11 CONT-16a a person has it hand off, asks about the run before, stops and starts it", func(t *testing.T) {
		say(t, 2, []string{"the summary is empty"}, "agents", "handoff", agent, "--summary", " ")
		say(t, 0, nil, "agents", "handoff", agent, "--summary", "half of it is written", "--by", "anna")
		m := until(t, func(m events.Mailbox) bool { return m.Epoch == 2 && m.Holder == nil })
		if len(m.Life.Past) != 2 || m.Life.Past[0].Code != mailbox.Handoff || m.Life.Past[1].Code != mailbox.Completed {
			t.Errorf("%+v", m.Life.Past)
		}
		say(t, 0, []string{"handoff", "completed", m.Life.Past[0].Run}, "agents", "show", agent)
		for !strings.Contains(say(t, 0, nil, "runs").out, "handed off") { // the list is a view
			pause(t)
			if t.Context().Err() != nil {
				t.Fatal("inspan runs does not say that a run was handed off")
			}
		}
		say(t, 5, []string{"no run is the agent"}, "agents", "watch", agent)
		say(t, 0, []string{"refused", "It said that it asks."}, "seance", agent, "What did it say?", "--epoch", "1")
		if m = until(t, func(events.Mailbox) bool { return true }); m.Epoch != 2 {
			t.Errorf("%+v", m)
		}
		say(t, 5, []string{"inspan agents show"}, "seance", agent, "x", "--epoch", "7")
		say(t, 0, []string{agent + " is stopped"}, "agents", "stop", agent)
		say(t, 0, []string{"stopped"}, "colony")
		say(t, 0, []string{agent + " is idle"}, "agents", "start", agent)
	})
	t.Run("ID-4 CLI-14b a tier is read from a file, set, shown and taken back", func(t *testing.T) {
		file := filepath.Join(d.dir, "tiers.toml")
		if err := os.WriteFile(file, []byte("[tiers.economy]\nworker = \"scripted/reader\"\n[tiers.bad]\nworker = \"x\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		say(t, 0, []string{"No tier"}, "tier", "show")
		say(t, 2, []string{"needs the file"}, "tier", "set", "economy")
		say(t, 2, []string{"did you mean"}, "tier", "set", "econmy", "--from", file)
		say(t, 4, []string{"not the name of a model"}, "tier", "set", "bad", "--from", file)
		say(t, 0, []string{"Tier economy", "worker", "scripted/reader"}, "tier", "set", "economy", "--from", file)
		say(t, 0, []string{"economy"}, "tier", "show", "--json")
		say(t, 0, []string{"No tier"}, "tier", "set", "none")
	})
}
