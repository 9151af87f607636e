package docgen

import (
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// What stands for ids in the pages.
const (
	station = "{s}"
	anyRun  = "{r}"
)

// subjectsPage is docs/subjects.md.
func subjectsPage() []byte {
	p := &page{}
	p.WriteString(made)
	p.say("# Subjects, streams and permissions\n")
	p.say("`%s` is the station, `%s` a run, `{g}` a gate: single tokens `[A-Za-z0-9_-]{1,%d}`. All of it is made from one table, `internal/topology`.\n",
		station, anyRun, events.MaxID)
	p.say("## Subjects\n")
	p.table([]string{"subject", "what", "published by", "stream"},
		[]string{code(events.RunEventSubject(station, anyRun, "{family}.{verb}")),
			"the events of a run: the log, and the work items", "the author of the kind only, see [events.md](events.md)",
			code(topology.Log(station))},
		[]string{code(events.EventSubject(station, "{aggregate}", "{id}", "{family}.{verb}")),
			"the events of another aggregate: " + others(), "the author of the event type only", code(topology.Log(station))},
		[]string{code(events.TaskSubject(station)) + ", " + code(events.TaskSubject(station)+".{project}"), "a task", "users",
			code(topology.In(station))},
		[]string{code(events.ControlSubject(station, anyRun)), "pause, resume, stop, autonomy, revise", "users",
			code(topology.In(station))},
		[]string{code(events.GateSubject(station, anyRun, "{g}")), "the answer to a gate; who answers is only claimed",
			"people, programs", code(topology.In(station))},
		[]string{code(events.GateSubject(station, anyRun, "{g}") + ".{approver}"),
			"the answer to a gate; permissions can bind the last token to the user", "people, programs",
			code(topology.In(station))},
		[]string{code(events.TimerSubject(station, anyRun, "{family}.{id}")), "a schedule; the same name replaces it",
			"the role that receives it", code(topology.Tmr(station, "{family}"))},
		[]string{code(events.DueSubject(station, anyRun, "{family}.{id}")), "its firing: a reason to look, never an event",
			"the NATS server", code(topology.Tmr(station, "{family}"))},
		[]string{code(events.StreamSubject(station, anyRun)),
			"every event of the run once it is stored, published again; other aggregates have the same", "the NATS server",
			"none"},
		[]string{code(events.LiveSubject(station, anyRun)), "tokens, thinking and tool output as they come",
			"executor, toolrunner", "none"},
		[]string{code(events.RetainedSubject(station, anyRun)),
			"the same, where `INSPAN_STREAMING` says jetstream: kept for a while and published again on `.live`",
			"executor, toolrunner", code(topology.Live(station))},
		[]string{code(events.SoFarSubject(station, anyRun)),
			"a request: whoever works on the run answers with its live messages so far, each stream in order", "watchers",
			"none"},
		[]string{code(events.DeadSubject(station, "{role}")), "input that a role refused, with the reason", "that role",
			code(topology.Dead(station))},
		[]string{code("inspan.{role}.status"),
			"a request that one instance of the role answers; `nats micro ls` lists the services", "whoever asks", "none"},
	)
	streams(p)
	hearing(p)
	permissions(p)
	return p.bytes()
}

// others are the names of the aggregates that are no run.
func others() string {
	var with, free []string
	for _, a := range topology.Aggregates() {
		switch {
		case a.Name == events.RunAggregate:
		case len(a.Words) == 0:
			free = append(free, a.Name)
		default:
			with = append(with, a.Name)
		}
	}
	return strings.Join(with, ", ") + "; kept free, without event types yet: " + strings.Join(free, ", ")
}

func streams(p *page) {
	p.say("## Streams and buckets\n\nAll are files, with as many copies as `INSPAN_REPLICAS` says. A service that starts makes what is missing. No stream uses message ids: events are kept apart by compare-and-set.\n")
	var rows [][]string
	for _, s := range topology.Streams(station, topology.Limits{}) {
		rows = append(rows, []string{code(s.Name), s.Description, codes(s.Subjects), retention(s), bounds(s), powers(s)})
	}
	p.table([]string{"stream", "what", "subjects", "keeps", "bounds", "powers"}, rows...)
	p.say("A firing waits for its role at most %s. A lease counts for %s without renewal. Objects are stored in parts of %s, at most %s each, and never replaced.\n",
		span(topology.DueAge), span(topology.LeaseTerm), size(topology.ChunkBytes), size(topology.MaxObject))
}

func retention(s topology.Stream) string {
	switch {
	case s.Retention == topology.KeepToAck:
		return "until acknowledged"
	case s.MaxPerKey > 1 && s.MaxAge > 0:
		return fmt.Sprintf("for %s, the last %d of each run", span(s.MaxAge), s.MaxPerKey)
	case s.MaxPerKey > 0:
		return fmt.Sprintf("the last %d of each key", s.MaxPerKey)
	case s.MaxAge > 0:
		return "for " + span(s.MaxAge)
	}
	return "for ever"
}

func bounds(s topology.Stream) string {
	full := "the oldest go when full"
	if s.DiscardNew {
		full = "refuses when full"
	}
	b := []string{"no bound of its own, " + full}
	if s.MaxBytes > 0 {
		b[0] = size(s.MaxBytes) + ", " + full
	}
	if s.MaxMsgSize > 0 {
		b = append(b, size(int64(s.MaxMsgSize))+" a message")
	}
	return strings.Join(b, "; ")
}

func powers(s topology.Stream) string {
	var some []string
	for _, p := range []struct {
		name string
		on   bool
	}{{"no delete", s.DenyDelete}, {"no purge", s.DenyPurge}, {"rollup", s.Rollup}, {"TTL", s.TTL},
		{"schedules", s.Schedules}, {"direct reads", s.Direct}, {"published again", s.RepublishTo != ""}} {
		if p.on {
			some = append(some, p.name)
		}
	}
	return strings.Join(some, ", ")
}

func hearing(p *page) {
	p.say("## Who receives and who publishes what\n\nA role has one durable pull consumer per stream, named like the role and shared by its instances.\n")
	var rows [][]string
	for _, h := range topology.AllSubscriptions() {
		evs := codes(h.Events)
		if h.All {
			evs = "every event"
		}
		rows = append(rows, []string{string(h.Role), evs, codes(h.Inputs), codes(h.Timers),
			codes(topology.PublishesEvents(h.Role)), fmt.Sprint(h.Workers)})
	}
	p.table([]string{"role", "receives events", "receives of users, below `station.{s}.`", "timers", "says",
		"at a time in one instance"}, rows...)
	p.say("### Consumers\n\nExplicit acknowledgement; ack wait %s; no limit of deliveries, because attempts are counted in the log.\n", span(topology.AckWait))
	rows = nil
	for _, role := range events.Services() {
		for _, c := range topology.Consumers(station, role) {
			rows = append(rows, []string{code(c.Stream), code(c.Name), codes(c.Filters), fmt.Sprint(c.MaxPending)})
		}
	}
	p.table([]string{"stream", "consumer", "filters", "most pending"}, rows...)
}

func permissions(p *page) {
	p.say("## Permissions\n\nOne NATS user per service, one to set the station up, and users with three rights: dispatch, watch, approve. What is not listed is denied. " +
		"A service connects with its own inbox prefix. No one may have `allow_responses`, and services and users must be in another account than the streams: see [deploy.md](deploy.md).\n")
	for _, role := range events.Services() {
		publish, subscribe := topology.Permissions(station, role)
		rights(p, string(role), publish, subscribe)
	}
	for _, u := range []struct {
		title, approver string
		right           topology.Right
	}{{"a user who dispatches and steers", "", topology.MayDispatch}, {"a user who watches", "", topology.MayWatch},
		{"a user who approves as {approver}", "{approver}", topology.MayApprove}, {"a program that answers hooks", "",
			topology.MayHook},
		{"a program that serves tools", "", topology.MayServe}, {"a program that records harnesses", "", topology.MayRecord},
		{"a user who halts the station", "", topology.MayHalt},
		{"a user who sets budgets", "", topology.MayBudget},
		{"a user who takes backups", "", topology.MayBackup}} {
		publish, subscribe := topology.UserPermissions(station, u.approver, u.right)
		rights(p, u.title, publish, subscribe)
	}
	setup, upgrade := topology.Setup(station), topology.Upgrade(station)
	rights(p, "the user who sets the station up", setup.Publish, setup.Subscribe)
	rights(p, "the user who brings it to another version or other limits", upgrade.Publish, upgrade.Subscribe)
}

func rights(p *page, who string, publish, subscribe []string) {
	p.say("<details><summary>%s</summary>\n\n```\npublish\n  %s\nsubscribe\n  %s\n```\n\n</details>\n", who,
		strings.Join(publish, "\n  "), strings.Join(subscribe, "\n  "))
}

func size(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.of {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.of)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d B", n)
}

func span(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return d.String()
}
