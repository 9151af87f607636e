package security

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// probe is something that an actor tries, and who of them may. It is written down by hand.
type probe struct {
	verb, subject, header string
	may                   []string
}

var (
	none     []string
	roles    = []string{"planner", "gatekeeper", "executor", "toolrunner", "persister"}
	people   = []string{"operator", "dispatcher", "watcher", "anna", "hook", "tools", "recorder"}
	watchers = []string{"operator", "watcher"}
	readers  = slices.Concat(roles, watchers, []string{"setup"})
	writers  = []string{"planner", "executor", "toolrunner", "persister"} // of objects
)

// families says whose timers each family are.
var families = map[string]string{"run": "planner", "turn": "executor", "call": "toolrunner", "gate": "gatekeeper"}

// authors says who says which event. It is written by hand for the permits and what is as old as they are; see
// withNewer.
var authors = map[string]string{
	"run.created": "planner", "run.started": "planner", "run.paused": "planner", "run.resumed": "planner", "run.adjusted": "planner", "run.moved": "planner", "run.forked": "planner",
	"run.completed": "planner", "run.failed": "planner", "plan.made": "planner", "plan.revised": "planner", "plan.completed": "planner", "step.ready": "planner",
	"step.allowed": "gatekeeper", "call.allowed": "gatekeeper", "call.refused": "gatekeeper",
	"gate.opened": "gatekeeper", "gate.approved": "gatekeeper", "gate.rejected": "gatekeeper", "gate.voted": "gatekeeper", "gate.expired": "gatekeeper",
	"turn.deferred": "executor", "turn.finished": "executor", "history.compacted": "executor", "step.finished": "executor", "step.failed": "executor",
	"call.started": "toolrunner", "call.deferred": "toolrunner", "call.finished": "toolrunner", "call.failed": "toolrunner", "artifact.saved": "toolrunner",
	"checkpoint.fallback": "persister", "checkpoint.saved": "persister", "checkpoint.taken": "planner",
}

// withNewer adds the event types that are newer than the table, with the author of their row.
func withNewer(authors map[string]string) map[string]string {
	all := maps.Clone(authors)
	for _, w := range events.Registry() {
		if _, ok := all[string(w.Kind)]; !ok {
			all[string(w.Kind)] = string(w.Author)
		}
	}
	return all
}

// consumers says who takes work from where.
var consumers = [][2]string{
	{"LOG_s1", "planner"}, {"LOG_s1", "gatekeeper"}, {"LOG_s1", "executor"}, {"LOG_s1", "toolrunner"}, {"LOG_s1", "persister"},
	{"IN_s1", "planner"}, {"IN_s1", "gatekeeper"}, {"TMR_s1_run", "planner"}, {"TMR_s1_turn", "executor"}, {"TMR_s1_call", "toolrunner"}, {"TMR_s1_gate", "gatekeeper"},
}

var streams = []string{"LOG_s1", "IN_s1", "DEAD_s1", "LIVE_s1", "TMR_s1_run", "TMR_s1_turn", "TMR_s1_call", "TMR_s1_gate",
	"KV_harness-state", "KV_harness-config", "KV_harness-lease", "KV_harness-sessions", "KV_harness-trees", "OBJ_harness-files", "OBJ_harness-artifacts"}

// probes lists all that is tried.
func probes() []probe {
	return slices.Concat(eventProbes(), sayProbes(), storeProbes(), streamProbes(), consumerProbes(), foreignProbes())
}

func eventProbes() []probe {
	var all []probe
	for kind, author := range withNewer(authors) {
		all = append(all, probe{"say an event", "station.s1.run.matrix.evt." + kind, "", []string{author}},
			probe{"say an event of another station", "station.s2.run.matrix.evt." + kind, "", none})
		for _, aggregate := range others {
			all = append(all, probe{"say an event in the log of another aggregate", "station.s1." + aggregate + ".matrix.evt." + kind, "", none})
		}
	}
	for kind, author := range sessionAuthors {
		all = append(all, probe{"say an event of a session", "station.s1.session.matrix.evt." + kind, "", []string{author}},
			probe{"say an event of a session of another station", "station.s2.session.matrix.evt." + kind, "", none},
			probe{"say an event of a session in the log of a run", "station.s1.run.matrix.evt." + kind, "", none})
	}
	return append(all, probe{"say an event that no one says", "station.s1.run.matrix.evt.run.erased", "", none},
		probe{"say an event of an agent", "station.s1.agent.p_r_n.evt.a.b", "", none})
}

// sessionAuthors says who says which event of a session.
var sessionAuthors = map[string]string{
	"session.migrated": "planner", "session.opened": "planner", "session.locked": "planner", "session.confirmed": "planner",
	"session.released": "planner", "session.settled": "planner", "session.steered": "planner",
}

// others are the aggregates whose logs take no event of a run.
var others = []string{"session", "agent", "work", "schedule", "workspace", "harness"}

func sayProbes() []probe {
	all := []probe{
		{"dispatch", "station.s1.task", "", []string{"operator", "dispatcher"}}, {"dispatch", "station.s1.task.p", "", []string{"operator", "dispatcher"}},
		{"steer", "station.s1.run.matrix.control", "", []string{"operator", "dispatcher"}},
		{"steer a session", "station.s1.session.matrix.control", "", []string{"operator", "dispatcher"}}, {"sweep a session", "station.s1.session.matrix.sweep", "", []string{"operator", "dispatcher"}},
		{"steer a session of another station", "station.s2.session.matrix.control", "", none},
		{"WORK-1 steer a work item", "station.s1.work.matrix.control", "", []string{"operator", "dispatcher"}},
		{"steer a work item of another station", "station.s2.work.matrix.control", "", none},
		{"say an event", "station.s1.work.matrix.evt.work.bound", "", []string{"planner"}},
		{"say the end of a run on a work item", "station.s1.work.matrix.evt.run.completed", "", none},
		{"feed watchers of a work item", "station.s1.work.matrix.stream", "", none},
		{"MSG-5 send mail to an agent", "station.s1.agent.matrix.control", "", []string{"operator", "dispatcher"}},
		{"send mail to an agent of another station", "station.s2.agent.matrix.control", "", none},
		{"say an event", "station.s1.agent.matrix.evt.mail.sent", "", []string{"planner"}},
		{"say an event", "station.s1.agent.matrix.evt.mail.acked", "", []string{"planner"}},
		{"feed watchers of an agent", "station.s1.agent.matrix.stream", "", none},
		{"DLV-1 steer a merge queue", "station.s1.mergequeue.matrix.control", "", []string{"operator", "dispatcher"}},
		{"steer a merge queue of another station", "station.s2.mergequeue.matrix.control", "", none},
		{"say an event", "station.s1.mergequeue.matrix.evt.queue.landed", "", []string{"planner"}},
		{"say an event", "station.s1.work.matrix.evt.delivery.landed", "", []string{"planner"}},
		{"say the end of a run on a merge queue", "station.s1.mergequeue.matrix.evt.run.completed", "", none},
		{"feed watchers of a merge queue", "station.s1.mergequeue.matrix.stream", "", none},
		{"PLUS-21a halt the station", "station.s1.halt.station.control", "", []string{"operator"}},
		{"PLUS-21b set a budget", "station.s1.budget.station.control", "", []string{"operator"}},
		{"set a budget of another station", "station.s2.budget.station.control", "", none},
		{"reserve of a budget", "station.s1.budget.station.evt.budget.reserved", "", []string{"planner"}},
		{"halt another station", "station.s2.halt.station.control", "", none},
		{"say that the station is released", "station.s1.halt.station.evt.halt.released", "", []string{"planner"}},
		{"say that the station has moved", "station.s1.halt.station.evt.halt.moved", "", []string{"planner"}},
		{"SDK-21 record a harness", "station.s1.harness.matrix.control", "", []string{"recorder"}},
		{"record a harness of another station", "station.s2.harness.matrix.control", "", none},
		{"say an event", "station.s1.harness.matrix.evt.harness.stepped", "", []string{"planner"}},
		{"feed watchers of a harness", "station.s1.harness.matrix.stream", "", none},
		{"answer in no one's name", "station.s1.run.matrix.gate.g", "", []string{"operator"}},
		{"answer as anna", "station.s1.run.matrix.gate.g.anna", "", []string{"anna"}}, {"answer as bert", "station.s1.run.matrix.gate.g.bert", "", none},
		{"show what is live", "station.s1.run.matrix.live", "", []string{"executor", "toolrunner"}},
		{"have what is live kept", "station.s1.run.matrix.kept", "", []string{"executor", "toolrunner"}}, {"have that of another station kept", "station.s2.run.matrix.kept", "", none},
		{"ask what was said so far", "station.s1.run.matrix.sofar", "", watchers}, {"ask that of another station", "station.s2.run.matrix.sofar", "", none},
		{"feed watchers", "station.s1.run.matrix.stream", "", none}, {"feed watchers of a session", "station.s1.session.matrix.stream", "", none},
		{"ask a hook", "station.s1.hook.audit", "", []string{"planner", "gatekeeper", "executor", "toolrunner"}},
		{"ask a hook of another station", "station.s2.hook.audit", "", none},
		{"answer a question to a hook", "station.s1.hooked.gatekeeper.token", "", []string{"hook"}},
		{"TOOL-19 call a tool that is served", "station.s1.tool.forecast", "", []string{"toolrunner"}}, {"call one of another station", "station.s2.tool.forecast", "", none},
		{"let a served call begin, or cancel it", "station.s1.toolcontrol.token", "", []string{"toolrunner"}},
		{"answer in the place of a tool server", "station.s1.toolreply.token", "", []string{"tools"}}, {"answer that of another station", "station.s2.toolreply.token", "", none},
		{"ask what is served", "station.s1.tools", "", watchers}, {"say what is served", "station.s1.toolspec.token", "", []string{"tools"}},
		{"look for services", "$SRV.PING", "", watchers}, {"ask for a status", "inspan.planner.status", "", watchers},
		{"answer people", "_INBOX.x", "", roles},
		{"ask the system", "$SYS.REQ.SERVER.PING", "", none},
		{"PLUS-17c ask for one's own rights", "$SYS.REQ.USER.INFO", "", actors}, {"ask for those of others", "$SYS.REQ.USER.x.INFO", "", none},
	}
	for family, role := range families {
		schedule := "Nats-Schedule: @at 2099-01-01T00:00:00Z\nNats-Schedule-Target: station.s1.due.matrix." + family + ".x"
		all = append(all, probe{"set a timer", "station.s1.timer.matrix." + family + ".x", schedule, []string{role}},
			probe{"cancel a timer", "station.s1.due.matrix." + family + ".x", "Nats-Scheduler: station.s1.timer.matrix." + family + ".x\nNats-Schedule-Next: purge", []string{role}},
			probe{"set a timer of another station", "station.s2.timer.matrix." + family + ".x", schedule, none})
	}
	for _, role := range roles {
		all = append(all, probe{"refuse input", "station.s1.dead." + role, "", []string{role}},
			probe{"speak into a service's ear", "_INBOX_s1_" + role + ".x", "", none})
	}
	return all
}

func storeProbes() []probe {
	var all []probe
	for _, header := range []string{"", "KV-Operation: DEL", "KV-Operation: PURGE\nNats-Rollup: sub", "Nats-Rollup: all"} {
		all = append(all,
			probe{"write a run's row", "$KV.harness-state.s1.run.matrix", header, []string{"persister"}},
			probe{"write an agent", "$KV.harness-config.s1.agent.matrix", header, []string{"setup"}},
			probe{"write the durability", "$KV.harness-config.s1.durability", header, []string{"setup", "planner"}},
			probe{"write the station's key", "$KV.harness-config.s1.key.idempotency", header, []string{"setup", "toolrunner"}},
			probe{"write a session", "$KV.harness-sessions.s1.session.matrix", header, []string{"planner"}},
			probe{"SAFE-8 write the record of a working tree", "$KV.harness-trees.s1.tree.matrix", header, []string{"toolrunner"}},
			probe{"write a lease", "$KV.harness-lease.s1.matrix", header, []string{"toolrunner"}},
			probe{"write a part of an object", "$O.harness-files.C.matrix", header, writers},
			probe{"describe an object", "$O.harness-files.M.matrix", header, writers},
			probe{"write a part of an artifact", "$O.harness-artifacts.C.matrix", header, []string{"toolrunner"}},
			probe{"describe an artifact", "$O.harness-artifacts.M.matrix", header, []string{"toolrunner"}})
		for _, bucket := range []string{"state", "config", "lease", "sessions", "trees"} {
			all = append(all, probe{"write a key of another station", "$KV.harness-" + bucket + ".s2.x", header, none})
		}
	}
	return all
}

func streamProbes() []probe {
	var all []probe
	api := func(verb, rest string, may []string) { all = append(all, probe{verb, "$JS.API." + rest, "", may}) }
	for _, st := range streams {
		api("look at a stream", "STREAM.INFO."+st, readers)
		api("make a stream", "STREAM.CREATE."+st, []string{"setup"})
		api("change a stream", "STREAM.UPDATE."+st, none)
		for _, verb := range []string{"PURGE", "DELETE", "MSG.DELETE", "SNAPSHOT", "RESTORE", "LEADER.STEPDOWN", "PEER.REMOVE"} {
			may := none
			if verb == "PURGE" && st == "OBJ_harness-artifacts" { // whose time is over
				may = []string{"persister"}
			}
			api("harm a stream", "STREAM."+verb+"."+st, may)
		}
		var got, direct []string
		switch st {
		case "LOG_s1", "OBJ_harness-files", "OBJ_harness-artifacts":
			got, direct = readers, readers
		case "KV_harness-lease":
			got = readers
		case "DEAD_s1": // a role looks whether it refused a message before
			got, direct = roles, slices.Concat(roles, watchers)
		case "LIVE_s1":
			direct = watchers
		}
		api("read from the leader", "STREAM.MSG.GET."+st, got)
		api("read", "DIRECT.GET."+st, direct)
	}
	api("read a row", "DIRECT.GET.KV_harness-state.$KV.harness-state.s1.run.x", readers)
	api("read an agent", "DIRECT.GET.KV_harness-config.$KV.harness-config.s1.agent.x", readers)
	api("read the durability", "DIRECT.GET.KV_harness-config.$KV.harness-config.s1.durability", readers)
	api("read the station's key", "DIRECT.GET.KV_harness-config.$KV.harness-config.s1.key.idempotency", []string{"setup", "toolrunner"})
	for _, rest := range []string{"STREAM.LIST", "STREAM.NAMES", "STREAM.CREATE.evil", "STREAM.TEMPLATE.CREATE.evil", "META.LEADER.STEPDOWN",
		"SERVER.REMOVE", "ACCOUNT.PURGE.streams-s1", "STREAM.INFO.LOG_s2", "DIRECT.GET.LOG_s2", "STREAM.MSG.GET.LOG_s2",
		"DIRECT.GET.KV_harness-state.$KV.harness-state.s2.run.x", "DIRECT.GET.KV_harness-config.$KV.harness-config.s2.agent.x"} {
		api("ask what is no one's business", rest, none)
	}
	api("ask how much room is left", "INFO", []string{"planner", "setup"})
	return all
}

func consumerProbes() []probe {
	var all []probe
	api := func(verb, rest string, may []string) {
		all = append(all, probe{verb, "$JS.API.CONSUMER." + rest, "", may})
	}
	for _, c := range consumers {
		stream, role := c[0], c[1]
		api("look at a consumer", "INFO."+stream+"."+role, slices.Concat([]string{role, "setup"}, watchers))
		api("take work", "MSG.NEXT."+stream+"."+role, []string{role})
		for _, verb := range []string{"DELETE", "PAUSE", "UNPIN", "RESET", "LEADER.STEPDOWN", "DURABLE.CREATE"} {
			api("harm a consumer", verb+"."+stream+"."+role, none)
		}
		all = append(all, probe{"acknowledge work", "$JS.ACK." + stream + "." + role + ".1.1.1.1.0", "", []string{role}},
			probe{"acknowledge work", "$JS.ACK._.h." + stream + "." + role + ".1.1.1.1.0.x", "", []string{role}})
	}
	for _, st := range streams {
		api("make a consumer", "CREATE."+st+".spy", none)
		api("make a consumer", "CREATE."+st+".spy.station.s1.>", none)
		api("make a consumer", "DURABLE.CREATE."+st+".spy", none)
		api("make a consumer", "CREATE."+st, none)
		api("list consumers", "LIST."+st, none)
	}
	return all
}

func foreignProbes() []probe {
	var all []probe
	receive := func(subject string, may []string) { all = append(all, probe{"hear", subject, "", may}) }
	for _, subject := range []string{">", "*", "$JS.>", "$SYS.>", "$KV.>", "$O.>", "station.>", "station.*.>", "station.s1.>", "station.s2.>", "station.s2.run.*.gate.>",
		"station.s1.run.*.evt.>", "station.s1.run.*.gate.>", "station.s1.task", "station.s1.timer.>", "_INBOX_s1_planner.*.x.>", "_R_.>", "$SRV.>"} {
		may := none
		if strings.HasPrefix(subject, "_INBOX_s1_planner") {
			may = []string{"planner"}
		}
		receive(subject, may)
	}
	for _, role := range roles {
		receive("_INBOX_s1_"+role+".>", []string{role})
		receive("inspan."+role+".status", []string{role})
	}
	receive("station.s1.hook.audit", []string{"hook"}) // who hears questions could answer first
	receive("station.s2.hook.audit", none)
	for _, subject := range []string{"tool.forecast", "tool.*", "toolcontrol.*", "tools"} { // who receives calls could answer first
		receive("station.s1."+subject, []string{"tools"})
		receive("station.s2."+subject, none)
	}
	receive("station.s1.toolreply.*", []string{"toolrunner"})
	receive("station.s2.toolreply.*", none)
	receive("station.s1.toolspec.*", watchers)
	for _, role := range roles[:4] {
		receive("station.s1.hooked."+role+".*", []string{role})
	}
	receive("station.s1.hooked.persister.*", none)
	receive("_INBOX.>", slices.Concat(people, []string{"setup"}))
	receive("station.s1.run.*.stream", slices.Concat(roles, watchers))
	receive("station.*.run.*.stream", watchers) // there is no other station in their account
	receive("station.s1.run.*.live", watchers)
	receive("station.s1.harness.*.stream", watchers)
	receive("station.s1.run.*.kept", none)
	receive("station.s1.run.*.sofar", []string{"executor", "toolrunner"}) // who hears the question could answer it
	receive("station.s1.dead.*", watchers)
	receive("station.s1.run.*.evt.run.completed", none) // the end comes with what is republished
	return all
}

// tried sums a matrix up.
type tried struct {
	probes, tried, allowed, refused int
	wrong                           []string
}

// matrix has every actor try every probe.
func matrix(b *bed) tried {
	var sum tried
	all := probes()
	sum.probes = len(all)
	evs := 0
	for _, actor := range actors {
		w := b.wire(actor)
		for _, p := range all {
			sum.tried++
			denied := false
			if p.verb == "hear" {
				denied = w.deaf(p.subject)
			} else {
				denied = w.denied(p.subject, "", p.header, "")
			}
			want := !slices.Contains(p.may, actor)
			if denied {
				sum.refused++
			} else {
				sum.allowed++
				if p.verb != "hear" && strings.HasPrefix(p.subject, "station.s1.") && strings.Contains(p.subject, ".evt.") {
					evs++
				}
			}
			if denied != want {
				sum.wrong = append(sum.wrong, fmt.Sprintf("%s: %s on %s: refused %v, want %v", actor, p.verb, p.subject, denied, want))
			}
		}
	}
	w := b.wire("setup")
	for stream, want := range map[string]int{"LOG_s1": evs} {
		if got, deleted := b.stored(w, stream); got != want || deleted != 0 {
			sum.wrong = append(sum.wrong, fmt.Sprintf("%s has %d messages and %d deleted, want the %d that were allowed", stream, got, deleted, want))
		}
	}
	return sum
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 the program agrees with the hand-written table, and permits are the gatekeeper's in it and beyond it", func(t *testing.T) {
		t.Parallel()
		for _, w := range events.Registry() {
			if author, ok := authors[string(w.Kind)]; ok && author != string(w.Author) {
				t.Errorf("%s is said by %s; the table here says %q", w.Kind, w.Author, author)
			}
			_, verb, _ := strings.Cut(string(w.Kind), ".")
			if (w.Kind.Family() == "gate" || verb == "allowed" || verb == "refused") && w.Author != events.Gatekeeper {
				t.Errorf("%s is a permit or an answer, and said by %s", w.Kind, w.Author)
			}
		}
		for kind := range authors {
			if _, ok := events.Lookup(events.Kind(kind)); !ok {
				t.Errorf("%s is in the table here only: a type is never taken back", kind)
			}
		}
		if len(roles) != len(events.Services()) {
			t.Error("the table here has other roles")
		}
	})
}
