package security

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// attack is one way to do what one may not. It returns how often it was tried and what harm was done.
type attack struct {
	name string
	try  func(t *testing.T, b *bed) (tries int, harm []string)
}

// attacks are the known ones on a server with permissions: each goes around the rights on subjects.
var attacks = []attack{
	{"erase by rollup header", rollups},
	{"forged schedule target", forgedTargets},
	{"cancelled timer", cancelledTimers},
	{"copied source", copiedSources},
	{"erased by configuration", configured},
	{"swallowed message id", swallowedIDs},
	{"another's subject, by way of an answer", answers},
}

// mine are subjects of every stream that a user may store on, by hand.
func mine(user string) map[string]string {
	all := map[string]map[string]string{
		"planner": {"LOG_s1": "station.s1.run.v.evt.run.paused", "TMR_s1_run": "station.s1.due.v.run.mine", "DEAD_s1": "station.s1.dead.planner", "KV_harness-config": "$KV.harness-config.s1.durability",
			"KV_harness-sessions": "$KV.harness-sessions.s1.session.mine", "OBJ_harness-files": "$O.harness-files.C.mine"},
		"gatekeeper": {"LOG_s1": "station.s1.run.v.evt.gate.opened", "TMR_s1_gate": "station.s1.due.v.gate.mine", "DEAD_s1": "station.s1.dead.gatekeeper"},
		"executor":   {"LOG_s1": "station.s1.run.v.evt.turn.finished", "TMR_s1_turn": "station.s1.due.v.turn.mine", "DEAD_s1": "station.s1.dead.executor", "OBJ_harness-files": "$O.harness-files.C.mine"},
		"toolrunner": {"LOG_s1": "station.s1.run.v.evt.call.finished", "TMR_s1_call": "station.s1.due.v.call.mine", "DEAD_s1": "station.s1.dead.toolrunner", "KV_harness-lease": "$KV.harness-lease.s1.mine", "KV_harness-trees": "$KV.harness-trees.s1.tree.mine", "OBJ_harness-files": "$O.harness-files.C.mine"},
		"persister":  {"LOG_s1": "station.s1.run.v.evt.checkpoint.saved", "DEAD_s1": "station.s1.dead.persister", "KV_harness-state": "$KV.harness-state.s1.run.mine", "OBJ_harness-files": "$O.harness-files.M.mine"},
		"operator":   {"IN_s1": "station.s1.run.v.control"},
		"dispatcher": {"IN_s1": "station.s1.task"},
		"anna":       {"IN_s1": "station.s1.run.v.gate.g.anna"},
		"watcher":    {},
	}
	return all[user]
}

// untrusted are all but the setup user, who may change everything anyway.
var untrusted = actors[1:]

// filled is a station with something in each stream that is worth an attack.
func filled(b *bed) {
	b.t.Helper()
	for user, goods := range map[string]map[string]string{
		"planner": {"station.s1.run.v.evt.run.created": "", "station.s1.run.v.evt.run.started": "", "station.s1.dead.planner": `{"code":"x"}`,
			"$KV.harness-config.s1.durability": "sync always"},
		"persister": {"$KV.harness-state.s1.run.v": "{}"}, "toolrunner": {"$KV.harness-lease.s1.v": "now", "$O.harness-files.C.v": "part"},
		"setup": {"$KV.harness-config.s1.agent.v": "{}"}, "dispatcher": {"station.s1.task": "{}"},
	} {
		w := b.wire(user)
		for subject, body := range goods {
			if m, err := w.ask(inboxOf(user), subject, "", body); err != nil || !strings.Contains(string(m.body), `"seq":`) {
				b.t.Fatalf("%s on %s: %v %s%s", user, subject, err, m.header, m.body)
			}
		}
	}
	for family, user := range families {
		if err := b.station(user).Timers().Set(within(b.t), "v", family+".kept", time.Now().Add(time.Hour), 0); err != nil {
			b.t.Fatal(err)
		}
	}
}

// counts says how many messages each stream holds.
func (b *bed) counts(w *wire) map[string]int {
	all := map[string]int{}
	for _, st := range streams {
		all[st], _ = b.stored(w, st)
	}
	return all
}

// given says how many messages each stream was ever given: also those that took the place of others, and leases that
// ended meanwhile.
func (b *bed) given(w *wire) map[string]int {
	all := map[string]int{}
	for _, st := range streams {
		all[st] = b.state(w, st).Last
	}
	return all
}

// differs says which streams hold more or less than they did.
func differs(before, after map[string]int) []string {
	var harm []string
	for st, n := range before {
		if after[st] != n {
			harm = append(harm, fmt.Sprintf("%s held %d messages and holds %d", st, n, after[st]))
		}
	}
	return harm
}

// rollups has every user try to erase with a header on every subject that it may store on. In a stream of timers the
// header works, but a role has only its own timers there.
func rollups(_ *testing.T, b *bed) (tries int, harm []string) {
	filled(b)
	admin := b.wire("setup")
	for _, user := range untrusted {
		w := b.wire(user)
		for stream, subject := range mine(user) {
			for _, header := range []string{"Nats-Rollup: all", "Nats-Rollup: sub", "Nats-TTL: 1s", "Nats-Marker-Reason: Purge", "KV-Operation: PURGE\nNats-Rollup: all"} {
				before := b.counts(admin)
				tries++
				if _, err := w.ask(inboxOf(user), subject, header, ""); err != nil {
					harm = append(harm, fmt.Sprintf("%s may not publish on %s: nothing was tried", user, subject))
				}
				after := b.counts(admin)
				for st, n := range before {
					if own := strings.HasPrefix(stream, "TMR_") && st == stream; after[st] < n && !own {
						harm = append(harm, fmt.Sprintf("%s erased %s with %q on %s", user, st, header, subject))
					}
				}
			}
		}
	}
	return tries, harm
}

// refusedBy publishes and reports whether the stream refused it, or the server did.
func refusedBy(w *wire, inbox, subject, header, body string) bool {
	m, err := w.ask(inbox, subject, header, body)
	return err != nil || strings.Contains(string(m.body), `"error"`) || strings.Contains(m.header, "503")
}

// forgedTargets has timers fire on subjects of others.
func forgedTargets(_ *testing.T, b *bed) (tries int, harm []string) {
	filled(b)
	admin := b.wire("setup")
	before := b.counts(admin)
	for family, user := range families {
		w := b.wire(user)
		targets := []string{"station.s1.run.v.evt.call.allowed", "station.s1.work.v.evt.call.allowed", "station.s1.run.v.evt.run.completed", "station.s1.task", "station.s1.run.v.gate.g.anna",
			"$KV.harness-config.s1.agent.v", "$KV.harness-state.s1.run.v", "$JS.API.STREAM.DELETE.LOG_s1", "station.s2.task"}
		for _, other := range slices.Sorted(maps.Keys(families)) {
			if other != family {
				targets = append(targets, "station.s1.due.v."+other+".x", "station.s1.timer.v."+other+".kept")
			}
		}
		for _, target := range targets {
			for _, when := range []string{"@at " + time.Now().UTC().Format(time.RFC3339), "@every 1s"} {
				tries++
				if !refusedBy(w, inboxOf(user), "station.s1.timer.v."+family+".evil", "Nats-Schedule: "+when+"\nNats-Schedule-Target: "+target, "forged") {
					harm = append(harm, fmt.Sprintf("%s has a timer that fires on %s", user, target))
				}
			}
		}
		for stream, subject := range mine(user) {
			if !strings.HasPrefix(stream, "TMR_") {
				tries++
				if !refusedBy(w, inboxOf(user), subject, "Nats-Schedule: @every 1s\nNats-Schedule-Target: "+subject, "forged") {
					harm = append(harm, fmt.Sprintf("%s takes schedules", stream))
				}
			}
		}
	}
	return tries, append(harm, differs(before, b.counts(admin))...)
}

// cancelledTimers has each role end the timers of the others by naming them in the header that ends one's own.
func cancelledTimers(_ *testing.T, b *bed) (tries int, harm []string) {
	filled(b)
	admin := b.wire("setup")
	before := b.counts(admin)
	for _, user := range untrusted {
		w := b.wire(user)
		for family, owner := range families {
			if owner == user {
				continue
			}
			for _, subject := range mine(user) {
				tries++
				_, _ = w.ask(inboxOf(user), subject, "Nats-Scheduler: station.s1.timer.v."+family+".kept\nNats-Schedule-Next: purge", "") // it may store: only the timers matter
			}
		}
	}
	after := b.counts(admin)
	for family := range families {
		st := "TMR_s1_" + family
		if after[st] < before[st] {
			harm = append(harm, "a timer of "+st+" was cancelled by another role")
		}
	}
	return tries, harm
}

// copiedSources has timers copy what their owner may not read, or to where it may not write.
func copiedSources(_ *testing.T, b *bed) (tries int, harm []string) {
	filled(b)
	w := b.wire("executor")
	for i, source := range []string{"station.s1.run.v.evt.run.created", "station.s1.task", "$KV.harness-config.s1.key.idempotency", "station.s1.timer.v.run.kept"} {
		tries++
		target := fmt.Sprintf("station.s1.due.v.turn.copy%d", i)
		if refusedBy(w, inboxOf("executor"), fmt.Sprintf("station.s1.timer.v.turn.copy%d", i),
			"Nats-Schedule: @at "+time.Now().UTC().Format(time.RFC3339)+"\nNats-Schedule-Target: "+target+"\nNats-Schedule-Source: "+source, "") {
			continue
		}
		// What fires is work of the executor's own; it must hold nothing of the source.
		m, err := w.ask(inboxOf("executor"), "$JS.API.CONSUMER.MSG.NEXT.TMR_s1_turn.executor", "", `{"batch":1,"expires":2000000000}`)
		if err != nil {
			harm = append(harm, err.Error())
		}
		if len(m.body) > 0 {
			harm = append(harm, fmt.Sprintf("a timer copied %q from %s", m.body, source))
		}
	}
	for _, target := range []string{"station.s1.run.v.evt.call.allowed", "station.s1.run.v.gate.g.anna"} {
		tries++
		if !refusedBy(w, inboxOf("executor"), "station.s1.timer.v.turn.copy", "Nats-Schedule: @every 1s\nNats-Schedule-Target: "+target+"\nNats-Schedule-Source: station.s1.due.v.turn.mine", "") {
			harm = append(harm, "a timer copies to "+target)
		}
	}
	for _, user := range untrusted {
		tries++
		cfg := `{"name":"copy","subjects":["copy"],"sources":[{"name":"LOG_s1"}]}`
		if _, err := b.wire(user).ask(inboxOf(user), "$JS.API.STREAM.CREATE.copy", "", cfg); err == nil {
			harm = append(harm, user+" made a stream that copies the log")
		}
	}
	return tries, harm
}

// configured has every user that a running station knows, the setup user too, put a limit on the log, purge it, delete
// it, or delete from it.
func configured(t *testing.T, b *bed) (tries int, harm []string) {
	filled(b)
	var info struct{ Config map[string]any }
	m, err := b.wire("setup").ask("_INBOX", "$JS.API.STREAM.INFO.LOG_s1", "", "")
	if err != nil || json.Unmarshal(m.body, &info) != nil || info.Config["name"] != "LOG_s1" {
		t.Fatalf("the configuration of the log: %v %s", err, m.body)
	}
	before, _ := b.stored(b.wire("setup"), "LOG_s1")
	for limit, value := range map[string]any{"max_age": 1e8, "max_msgs": 1, "max_msgs_per_subject": 1, "max_bytes": 1, "deny_purge": false, "sealed": true, "retention": "workqueue"} {
		cfg := maps.Clone(info.Config)
		cfg[limit] = value
		cfg["duplicate_window"] = 1e8
		body, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range actors {
			for _, verb := range []string{"UPDATE", "CREATE"} {
				tries++
				if !refusedBy(b.wire(user), inboxOf(user), "$JS.API.STREAM."+verb+".LOG_s1", "", string(body)) {
					harm = append(harm, fmt.Sprintf("%s set %s by %s", user, limit, verb))
				}
			}
		}
	}
	for verb, body := range map[string]string{"PURGE": "", "DELETE": "", "MSG.DELETE": `{"seq":1}`} {
		for _, user := range actors {
			tries++
			if !refusedBy(b.wire(user), inboxOf(user), "$JS.API.STREAM."+verb+".LOG_s1", "", body) {
				harm = append(harm, user+" may "+verb)
			}
		}
	}
	if after, deleted := b.stored(b.wire("setup"), "LOG_s1"); after != before || deleted != 0 {
		harm = append(harm, fmt.Sprintf("the log held %d messages and holds %d", before, after))
	}
	return tries, harm
}

// swallowedIDs publishes with a message id first, so that what another says with the same id is dropped as a duplicate.
// The server keeps no ids where outsiders publish.
func swallowedIDs(t *testing.T, b *bed) (tries int, harm []string) {
	admin := b.wire("setup")
	evil := b.wire("dispatcher")
	victim := b.station("operator")
	for i := range 20 {
		tries++
		id := fmt.Sprintf("task-%d", i)
		if refusedBy(evil, "_INBOX", "station.s1.task", "Nats-Msg-Id: "+id, "{}") {
			t.Fatal("the attacker may not dispatch: nothing was tried")
		}
		before, _ := b.stored(admin, "IN_s1")
		body, err := json.Marshal(events.Task{ID: id, Agent: "a", Task: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := victim.PublishAt(within(t), events.TaskSubject("s1"), body, map[string]string{"Inspan-Token": id, "Nats-Msg-Id": id}); err != nil {
			harm = append(harm, err.Error())
		}
		if after, _ := b.stored(admin, "IN_s1"); after != before+1 {
			harm = append(harm, fmt.Sprintf("task %s was swallowed", id))
		}
	}
	for _, st := range streams {
		m, err := admin.ask("_INBOX", "$JS.API.STREAM.INFO."+st, "", "")
		var info struct {
			Config struct {
				Window time.Duration `json:"duplicate_window"`
			}
		}
		if err != nil || json.Unmarshal(m.body, &info) != nil || info.Config.Window > 100*time.Millisecond || st == "IN_s1" && info.Config.Window != 0 {
			harm = append(harm, fmt.Sprintf("%s remembers ids for %s", st, info.Config.Window))
		}
	}
	return tries, harm
}

// questions are what a user may ask, so that the server or a service answers wherever the asker says. The object and
// the task hold what a forger would want to be stored.
func questions(user string) map[string]string {
	all := map[string]string{"$SYS.REQ.USER.INFO": ""}
	for _, subject := range mine(user) {
		all[subject] = "forged"
	}
	if slices.Contains(readers, user) {
		all["$JS.API.STREAM.INFO.LOG_s1"] = ""
		all["$JS.API.DIRECT.GET.OBJ_harness-files"] = `{"last_by_subj":"$O.harness-files.C.forged"}`
		all["$JS.API.DIRECT.GET.LOG_s1"] = `{"seq":1,"next_by_subj":"station.s1.>","batch":8}`
		all["$JS.API.STREAM.MSG.GET.LOG_s1"] = `{"seq":1}`
		all["$JS.API.DIRECT.GET.KV_harness-state.$KV.harness-state.s1.run.v"] = ""
	}
	if slices.Contains(roles, user) {
		all["$JS.API.STREAM.MSG.GET.DEAD_s1"] = `{"last_by_subj":"station.s1.dead.planner"}`
		all["$JS.API.DIRECT.GET.DEAD_s1"] = `{"seq":1,"next_by_subj":"station.s1.dead.>","batch":8}`
	}
	if slices.Contains(watchers, user) {
		all["inspan.planner.status"], all["$SRV.PING"], all["$SRV.INFO"], all["$SRV.STATS"] = "", "", "", ""
		all["$JS.API.DIRECT.GET.DEAD_s1"] = `{"seq":1}`
	}
	for _, c := range consumers {
		if c[1] == user {
			all["$JS.API.CONSUMER.MSG.NEXT."+c[0]+"."+user] = `{"batch":8,"no_wait":true}`
			all["$JS.API.CONSUMER.INFO."+c[0]+"."+user] = ""
		}
	}
	return all
}

// victims are subjects on which an asker would like to see an answer stored, and who may say something there anyway.
var victims = map[string][]string{
	"station.s1.run.v.evt.call.allowed": {"gatekeeper"}, "station.s1.run.v.evt.run.failed": {"planner"},
	"station.s1.work.v.evt.call.allowed": none, "station.s1.session.v.stream": none,
	"station.s1.run.v.gate.g.anna": {"anna"}, "station.s1.task": {"operator", "dispatcher"},
	"station.s1.timer.v.run.x": {"planner"}, "station.s1.due.v.call.x": {"toolrunner"}, "station.s1.dead.planner": {"planner"},
	"$KV.harness-config.s1.agent.v": {"setup"}, "$KV.harness-state.s1.run.v": {"persister"}, "$KV.harness-lease.s1.v": {"toolrunner"},
	"$KV.harness-trees.s1.tree.v":       {"toolrunner"},
	"$KV.harness-sessions.s1.session.v": {"planner"}, "station.s1.due.v.gate.x": {"gatekeeper"}, "station.s1.session.v.control": {"operator", "dispatcher"},
	"$O.harness-files.C.v": writers, "$JS.ACK.LOG_s1.planner.1.1.1.1.0": {"planner"},
}

// forgery is what a forger wants in the log.
const forgery = `{"specversion":"1.0","type":"dev.inspan.call.allowed.v1","source":"/station/s1/gatekeeper"}`

// answers asks what may be asked, and names the subjects of others for the answer.
func answers(t *testing.T, b *bed) (tries int, harm []string) {
	filled(b)
	stop, err := b.conn("planner").Services().Register(events.Planner, "1.0.0", func([]byte) any { return "forged" })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }() // the connection goes with the test
	runner := b.wire("toolrunner")
	if refusedBy(runner, inboxOf("toolrunner"), "$O.harness-files.C.forged", "", forgery) {
		t.Fatal("no object to forge with")
	}
	admin := b.wire("setup")
	for _, user := range untrusted {
		w := b.wire(user)
		for question, body := range questions(user) {
			before := b.given(admin)
			for victim, may := range victims {
				if slices.Contains(may, user) {
					continue
				}
				for _, header := range []string{"", "Nats-Trace-Dest: " + victim, "Nats-Trace-Dest: " + victim + "\nNats-Trace-Only: true"} {
					tries++
					w.publish(question, victim, header, body)
				}
			}
			w.settle()
			own := mineIn(user, question)
			if own != "" { // once this one is stored, those before it are
				if _, err := w.ask(inboxOf(user), question, "", body); err != nil {
					t.Fatal(err)
				}
			}
			after := settled(b, admin)
			for st, n := range before {
				if st == own {
					continue
				}
				if after[st] != n {
					harm = append(harm, fmt.Sprintf("%s asked %s: %s was given %d messages and now %d", user, question, st, n, after[st]))
				}
			}
		}
	}
	return tries, harm
}

// mineIn is the stream that a question itself is stored in.
func mineIn(user, question string) string {
	for stream, subject := range mine(user) {
		if subject == question {
			return stream
		}
	}
	return ""
}

// settled counts until two counts in a row are the same, because answers come after the question is dealt with.
func settled(b *bed, admin *wire) map[string]int {
	last := b.given(admin)
	for {
		next := b.given(admin)
		if len(differs(last, next)) == 0 {
			return next
		}
		last = next
	}
}

func TestOneAccount(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-5 in one account the server does write answers into the log, so the attack above is a real one", func(t *testing.T) {
		t.Parallel()
		publish, subscribe := topology.UserPermissions("s1", "", topology.MayDispatch)
		s := jettest.Server(t, func(cfg *natsserver.Config) {
			cfg.Port = -1
			cfg.Users = []natsserver.User{{Name: "setup", Password: password("setup")}, {Name: "dispatcher", Password: password("dispatcher"), Publish: publish, Subscribe: subscribe}}
		})
		b := bedOn(t, s.URL(), 1)
		w, admin := b.wire("dispatcher"), b.wire("setup")
		w.publish("station.s1.task", "station.s1.run.v.evt.call.allowed", "", "{}")
		w.settle()
		for end := time.Now().Add(10 * time.Second); settled(b, admin)["LOG_s1"] == 0 && time.Now().Before(end); {
			continue // the server answers when it has come to it
		}
		if n := settled(b, admin)["LOG_s1"]; n != 1 {
			t.Errorf("the log has %d messages, want the forged one", n)
		}
	})
}
