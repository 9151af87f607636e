package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// overlap reports whether some subject matches both patterns.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(x) || i == len(y):
			return len(x) == len(y)
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
}

// within reports whether every subject of a pattern is one of another.
func within(inner, outer string) bool {
	x, y := strings.Split(inner, "."), strings.Split(outer, ".")
	for i, t := range y {
		switch {
		case t == ">":
			return i < len(x)
		case i >= len(x) || t != "*" && t != x[i]:
			return false
		}
	}
	return len(x) == len(y)
}

func TestTable(t *testing.T) {
	t.Parallel()
	streams := Streams("s1", Limits{})
	t.Run("SAFE-5 no subject belongs to two streams, and none of a station to another", func(t *testing.T) {
		t.Parallel()
		all := slices.Clone(streams)
		for _, st := range Streams("s2", Limits{}) {
			if strings.Contains(st.Name, "s2") { // the buckets are shared
				all = append(all, st)
			}
		}
		for i, a := range all {
			for _, b := range all[i+1:] {
				for _, x := range a.Subjects {
					for _, y := range b.Subjects {
						if overlap(x, y) {
							t.Errorf("%s of %s and %s of %s overlap", x, a.Name, y, b.Name)
						}
					}
				}
			}
		}
	})
	t.Run("OBS-1 what is republished is no input of any stream", func(t *testing.T) {
		t.Parallel()
		for _, st := range streams {
			if st.RepublishTo == "" {
				continue
			}
			to := starred(st.RepublishTo)
			if want := map[string]string{"LOG_s1": "station.s1.*.*.stream", "LIVE_s1": events.LiveSubject("s1", "*"), "DEAD_s1": "station.s1.letter.*"}[st.Name]; to != want {
				t.Errorf("%s republishes to %s, want %q", st.Name, to, want)
			}
			for _, other := range streams {
				if slices.ContainsFunc(other.Subjects, func(s string) bool { return overlap(s, to) }) {
					t.Errorf("%s takes what %s republishes", other.Name, st.Name)
				}
			}
		}
	})
	t.Run("SAFE-5 what is borrowed under another subject has no wildcard in the three tokens that an answer fills", func(t *testing.T) {
		t.Parallel()
		others := 0
		for _, l := range (Buckets{}).lent("s1") {
			local := cmp.Or(l.as, inFront("streams-s1", l.Subject))
			if !l.Service || local == l.Subject {
				continue
			}
			others++
			if tokens := strings.Split(local, "."); len(tokens) < 4 || strings.Contains(strings.Join(tokens[:3], "."), "*") || strings.HasPrefix(local, "_R_") {
				t.Errorf("%s is borrowed as %s", l.Subject, local)
			}
		}
		if others < 10 {
			t.Errorf("%d are borrowed under another subject", others)
		}
	})
	t.Run("OBS-12 what is said live is kept within bounds and has no powers", func(t *testing.T) {
		t.Parallel()
		at := slices.IndexFunc(streams, func(st Stream) bool { return st.Name == Live("s1") })
		if st := streams[at]; st.DiscardNew || st.MaxBytes <= 0 || st.MaxPerKey <= 0 || st.MaxAge <= 0 || st.MaxMsgSize <= 0 || !st.DenyDelete || !st.DenyPurge || st.Rollup || st.TTL || st.Schedules || st.Batches {
			t.Errorf("%+v", st)
		}
	})
	t.Run("SAFE-5 only TMR has powers, and only services write to it", func(t *testing.T) {
		t.Parallel()
		for _, st := range streams {
			if (st.Rollup || st.TTL || st.Schedules) != strings.HasPrefix(st.Name, "TMR_s1_") {
				t.Errorf("%s: rollup %v, lifetimes %v, schedules %v", st.Name, st.Rollup, st.TTL, st.Schedules)
			}
		}
		for _, right := range []Right{MayDispatch, MayWatch, MayApprove} {
			publish, _ := UserPermissions("s1", "anna", right)
			for _, p := range publish {
				for _, st := range streams {
					if st.Name != In("s1") && slices.ContainsFunc(st.Subjects, func(s string) bool { return overlap(s, p) }) {
						t.Errorf("a user who may %s publishes on %s, which is of %s", right, p, st.Name)
					}
				}
			}
		}
	})
	t.Run("DEPL-2 each word, input and timer is heard where the table says, within its stream and once where it is taken", func(t *testing.T) {
		t.Parallel()
		byName := map[string]Stream{}
		for _, st := range streams {
			byName[st.Name] = st
		}
		taken := map[string][]string{}
		for _, role := range events.Services() {
			for _, c := range Consumers("s1", role) {
				st := byName[c.Stream]
				for _, f := range c.Filters {
					if !slices.ContainsFunc(st.Subjects, func(s string) bool { return within(f, s) }) {
						t.Errorf("%s of %s filters %s, which is not a subject of the stream", c.Name, c.Stream, f)
					}
					if st.Retention == KeepToAck && slices.ContainsFunc(taken[st.Name], func(o string) bool { return overlap(o, f) }) {
						t.Errorf("%s of %s: two consumers take %s", c.Name, c.Stream, f)
					}
					taken[st.Name] = append(taken[st.Name], f)
				}
				if c.MaxPending < 4*SubscriptionsOf(role).Workers {
					t.Errorf("%s of %s: %d pending for %d workers", c.Name, c.Stream, c.MaxPending, SubscriptionsOf(role).Workers)
				}
			}
		}
		for _, subject := range []string{events.TaskSubject("s1"), events.TaskSubject("s1") + ".p", events.ControlSubject("s1", "r"),
			events.GateSubject("s1", "r", "g"), events.GateSubject("s1", "r", "g") + ".anna"} {
			if !slices.ContainsFunc(taken[In("s1")], func(f string) bool { return within(subject, f) }) {
				t.Errorf("no one hears %s", subject)
			}
		}
	})
}

// publishGaps returns what is wrong with who may publish event types: each names the type.
func publishGaps(aggregate string, types []events.Type) []string {
	var found []string
	for _, w := range types {
		if !slices.Contains(events.Services(), w.Author) {
			found = append(found, fmt.Sprintf("%s has no author that may publish it", w.Kind))
		}
		ev := events.EventSubject("s1", aggregate, "x1", w.Kind)
		for _, role := range events.Services() {
			publish, _ := Permissions("s1", role)
			switch may := slices.ContainsFunc(publish, func(p string) bool { return within(ev, p) }); {
			case may && w.Author != role:
				found = append(found, fmt.Sprintf("%s may be published by %s", w.Kind, role))
			case !may && w.Author == role:
				found = append([]string{fmt.Sprintf("%s may not be published by %s, its author", w.Kind, role)}, found...)
			}
		}
	}
	return found
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 each kind of fact may be published by its author and nobody else", func(t *testing.T) {
		t.Parallel()
		for _, a := range events.Aggregates() {
			for _, gap := range publishGaps(a.Name, a.Types) {
				t.Error(gap)
			}
		}
	})
	t.Run("SAFE-6 EVT-13 a type that nobody may publish, or another than its author, is named", func(t *testing.T) {
		t.Parallel()
		for want, w := range map[string]events.Type{
			"note.taken may not be published by planner": {Kind: "note.taken", Author: events.Planner},
			"note.taken has no author":                   {Kind: "note.taken"},
			"call.allowed may not be published by pl":    {Kind: events.CallAllowed, Author: events.Planner},
		} {
			if got := publishGaps(events.RunAggregate, []events.Type{w}); len(got) == 0 || !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("SAFE-6 nobody but the setup user may change or erase a stream, or create a consumer", func(t *testing.T) {
		t.Parallel()
		var all []string
		for _, role := range events.Services() {
			publish, _ := Permissions("s1", role)
			if at := slices.Index(publish, purgeArtifacts); role == events.Persister && at >= 0 {
				publish = slices.Delete(publish, at, at+1) // what has expired, and nothing else
			}
			all = append(all, publish...)
		}
		publish, _ := UserPermissions("s1", "", MayDispatch, MayWatch, MayApprove)
		for _, p := range append(all, publish...) {
			for _, verb := range []string{"STREAM.CREATE.>", "STREAM.UPDATE.>", "STREAM.DELETE.>", "STREAM.PURGE.>", "STREAM.MSG.DELETE.>",
				"STREAM.SNAPSHOT.>", "STREAM.RESTORE.>", "CONSUMER.CREATE.>", "CONSUMER.DURABLE.>", "CONSUMER.DELETE.>", "SERVER.>"} {
				if overlap(p, "$JS.API."+verb) {
					t.Errorf("%s is permitted", p)
				}
			}
		}
		setup, _ := SetupPermissions("s1")
		for _, p := range setup {
			if overlap(p, "$JS.API.STREAM.DELETE.>") || overlap(p, "$JS.API.STREAM.PURGE.>") || overlap(p, "station.>") {
				t.Errorf("the setup user may %s", p)
			}
		}
	})
	t.Run("SAFE-6 no inbox is heard by two services, or by users and a service", func(t *testing.T) {
		t.Parallel()
		inboxes := []string{"_INBOX.>"}
		for _, role := range events.Services() {
			_, subscribe := Permissions("s1", role)
			for _, s := range subscribe {
				if strings.HasPrefix(s, "_INBOX") {
					inboxes = append(inboxes, s)
				}
			}
		}
		if len(inboxes) != 6 {
			t.Fatalf("got inboxes %q, want one for each service and one for users", inboxes)
		}
		for i, a := range inboxes {
			for _, b := range inboxes[i+1:] {
				if overlap(a, b) {
					t.Errorf("%s and %s overlap", a, b)
				}
			}
		}
	})
}

func TestWriter(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 the user that appends for all roles of a process may publish events, read the log and set positions in it, and nothing else", func(t *testing.T) {
		t.Parallel()
		u, prefix := Writer("s1")
		var evs []string
		for _, a := range events.Aggregates() {
			for _, w := range a.Types {
				evs = append(evs, events.KindEvents("s1", a.Name, w.Kind))
			}
		}
		evs = append(evs, "$JS.API.DIRECT.GET.LOG_s1", "$JS.API.STREAM.MSG.GET.LOG_s1")
		for _, role := range events.Services() {
			evs = append(evs, "$JS.API.CONSUMER.INFO.LOG_s1."+string(role), "$JS.API.CONSUMER.RESET.LOG_s1."+string(role))
		}
		if slices.Sort(evs); !slices.Equal(slices.Sorted(slices.Values(u.Publish)), evs) {
			t.Errorf("it may publish %q, want %q", u.Publish, evs)
		}
		if want := []string{prefix + ".>", "station.s1.*.*.stream"}; !slices.Equal(u.Subscribe, want) {
			t.Errorf("it may subscribe to %q, want %q", u.Subscribe, want)
		}
		for _, role := range events.Services() {
			if prefix == InboxPrefix("s1", role) {
				t.Errorf("its answers go where those of the %s do", role)
			}
		}
	})
}
