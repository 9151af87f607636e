package docgen

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// subjectsDoc is docs/subjects.md.
func subjectsDoc() []byte {
	var b bytes.Buffer
	b.WriteString("# Subjects and streams\n\n" + made)
	fmt.Fprintf(&b, "`%s` and the other words in braces stand for one token of at most %d characters `A-Z a-z 0-9 _ -`.\n\n", station, events.MaxID)
	subjects(&b)
	streams(&b)
	roles(&b)
	permissions(&b)
	return b.Bytes()
}

func subjects(b *bytes.Buffer) {
	b.WriteString("## Subjects\n\n| Subject | What it carries | Who says it |\n|---|---|---|\n")
	due := "{family}.{id}"
	for _, row := range [][3]string{
		{events.FactSubject(station, anyRun, "{kind}"), "facts of a run, stored for good; see events.md", "the author of the kind"},
		{events.StreamSubject(station, anyRun), "every stored fact again, as it is stored; not stored a second time", "the server"},
		{events.LiveSubject(station, anyRun), "tokens and output as they come; never stored", "executor, toolrunner"},
		{events.TaskSubject(station), "tasks; one more token names who sends them", "users who may dispatch"},
		{events.ControlSubject(station, anyRun), "pause, resume, start, stop, autonomy", "users who may dispatch"},
		{events.GateSubject(station, anyRun, anyGate), "answers to a gate; one more token binds the approver", "users who may approve"},
		{events.TimerSubject(station, anyRun, due), "timers", "the role that hears them"},
		{events.DueSubject(station, anyRun, due), "timers that fired", "the server"},
		{events.DeadSubject(station, "{role}"), "input that a role refused, with the reason", "that role"},
	} {
		fmt.Fprintf(b, "| %s | %s | %s |\n", code(row[0]), cell(row[1]), cell(row[2]))
	}
}

func streams(b *bytes.Buffer) {
	b.WriteString("\n## Streams and buckets\n\nThe first ones are of one station, the buckets are shared by the stations of an account. All are files.\n\n" +
		"| Stream | Purpose | Subjects | Kept | Size | When full | Largest message | Oldest | Powers |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range topology.Streams(station, topology.Limits{}) {
		full := "the oldest goes"
		if s.DiscardNew {
			full = "the new one is refused"
		}
		kept := "until a limit"
		if s.Retention == topology.KeepToAck {
			kept = "until acknowledged"
		}
		if s.MaxPerKey > 0 {
			kept += fmt.Sprintf(", %d a key", s.MaxPerKey)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", code(s.Name), cell(s.Description), codes(s.Subjects), kept,
			size(s.MaxBytes, "server's limit"), full, size(int64(s.MaxMsgSize), "server's limit"), age(s.MaxAge), powers(s))
	}
	fmt.Fprintf(b, "\nA stored object has at most %s, in parts of %s. An instance counts as alive for %s after its last renewal. "+
		"A delivered message may go without a sign of life for %s. A station takes %d tasks of the largest size while no planner is there.\n",
		size(topology.MaxObject, ""), size(topology.ChunkBytes, ""), topology.LeaseTerm, topology.AckWait, topology.BurstTasks)
}

func powers(s topology.Stream) string {
	var list []string
	for _, p := range []struct {
		on   bool
		word string
	}{{s.DenyDelete, "no delete"}, {s.DenyPurge, "no purge"}, {s.Rollup, "rollup"}, {s.TTL, "lifetimes"}, {s.Schedules, "schedules"}, {s.Direct, "direct get"}} {
		if p.on {
			list = append(list, p.word)
		}
	}
	if s.RepublishTo != "" {
		list = append(list, "says again on "+code(strings.ReplaceAll(s.RepublishTo, "{{wildcard(1)}}", anyRun)))
	}
	return strings.Join(list, ", ")
}

func size(n int64, none string) string {
	switch {
	case n <= 0:
		return none
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

func age(d time.Duration) string {
	switch {
	case d == 0:
		return "any"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

func roles(b *bytes.Buffer) {
	b.WriteString("\n## Who hears, who says\n\n| Role | Hears facts | Hears outsiders on | Hears timers | Says | At a time |\n|---|---|---|---|---|---|\n")
	for _, h := range topology.Hearing() {
		facts := kinds(h.Facts)
		if h.All {
			facts = "every fact"
		}
		var in []string
		for _, p := range h.Inputs {
			in = append(in, "station."+station+"."+p)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %d |\n", h.Role, facts, codes(in), codes(h.Timers), kinds(topology.Says(h.Role)), h.Workers)
	}
	b.WriteString("\nA role has one durable consumer for each stream that it hears; all its instances share it.\n\n" +
		"| Consumer | Stream | Filters | Pending at most |\n|---|---|---|---|\n")
	for _, role := range events.Services() {
		for _, c := range topology.Consumers(station, role) {
			fmt.Fprintf(b, "| %s | %s | %s | %d |\n", code(c.Name), code(c.Stream), codes(c.Filters), c.MaxPending)
		}
	}
}

func kinds(list []events.Kind) string {
	words := make([]string, len(list))
	for i, k := range list {
		words[i] = string(k)
	}
	return codes(words)
}

// permissions lists what each NATS user may do; everything else is denied.
func permissions(b *bytes.Buffer) {
	b.WriteString("\n## Permissions\n\nWhat a NATS user of a service, or of a person or program outside, needs. Everything else is to be denied. " +
		"Users of services also need `allow_responses`.\n")
	write := func(title string, publish, subscribe []string) {
		fmt.Fprintf(b, "\n### %s\n\n", title)
		for _, p := range []struct {
			verb string
			list []string
		}{{"publish", publish}, {"subscribe", subscribe}} {
			if len(p.list) > 0 {
				fmt.Fprintf(b, "May %s:\n\n```\n%s\n```\n\n", p.verb, strings.Join(p.list, "\n"))
			}
		}
	}
	for _, role := range events.Services() {
		publish, subscribe := topology.Permissions(station, role)
		write("Service "+string(role), publish, subscribe)
	}
	for _, right := range []topology.Right{topology.MayDispatch, topology.MayWatch, topology.MayApprove} {
		publish, subscribe := topology.UserPermissions(station, "{approver}", right)
		write("User who may "+string(right), publish, subscribe)
	}
	publish, subscribe := topology.SetupPermissions(station)
	write("User who sets stations up", publish, subscribe)
	trimmed := bytes.TrimRight(b.Bytes(), "\n")
	b.Truncate(len(trimmed))
	b.WriteByte('\n')
}
