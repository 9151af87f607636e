package jet_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

func permissions(role events.Service) (publish, subscribe []string) {
	return topology.Permissions("s1", role)
}
func inboxOf(role events.Service) string         { return topology.InboxPrefix("s1", role) }
func natsUser(user, password string) nats.Option { return nats.UserInfo(user, password) }

// guarded is a server with one user for each service, for the setup and for each right, and two stations.
func guarded(t *testing.T) *natsserver.Server {
	t.Helper()
	s := jettest.Server(t, func(cfg *natsserver.Config) {
		cfg.Users = []natsserver.User{{Name: "admin", Password: "x"}}
		add := func(name string, publish, subscribe []string) {
			cfg.Users = append(cfg.Users, natsserver.User{Name: name, Password: "x", Publish: publish, Subscribe: subscribe})
		}
		for _, role := range events.Services() {
			publish, subscribe := permissions(role)
			add(string(role), publish, subscribe)
		}
		for _, right := range []topology.Right{topology.MayDispatch, topology.MayWatch, topology.MayApprove} {
			publish, subscribe := topology.UserPermissions("s1", "anna", right)
			add(string(right), publish, subscribe)
		}
		publish, subscribe := topology.SetupPermissions("s1")
		add("setup", publish, subscribe)
	})
	jettest.Station(t, jettest.Connect(t, s, as("admin", "x", "")), "s2", jet.ApplyOptions{})
	jettest.Station(t, jettest.Connect(t, s, as("setup", "x", "")), "s1", jet.ApplyOptions{AckWait: 2 * time.Second})
	return s
}

func seenBy(t *testing.T, s *natsserver.Server, user, inbox, station string) *jet.Station {
	t.Helper()
	st, err := jettest.Connect(t, s, as(user, "x", inbox)).Station(station)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	kinds := events.Registry()
	for _, role := range events.Services() {
		t.Run("SAFE-6 "+string(role)+" says its own events and no other, and none of another station", func(t *testing.T) {
			t.Parallel()
			mine, other := seenBy(t, s, string(role), inboxOf(role), "s1"), seenBy(t, s, string(role), inboxOf(role), "s2")
			for _, w := range kinds {
				id := "m-" + rand16()
				want := kernel.Denied
				if w.Author == role {
					want = kernel.Stored
				}
				if ack := mine.Journal().Append(within(t), kernel.Entry{ID: id, Kind: w.Kind, Bytes: []byte("x")}); ack.Outcome != want {
					t.Errorf("%s: got %s (%v), want %s", w.Kind, ack.Outcome, ack.Err, want)
				}
				if ack := other.Journal().Append(within(t), kernel.Entry{ID: id, Kind: w.Kind, Bytes: []byte("x")}); ack.Outcome != kernel.Denied {
					t.Errorf("%s of another station: got %s (%v), want denied", w.Kind, ack.Outcome, ack.Err)
				}
			}
			if _, _, err := other.Journal().Read(within(t), "r1", 0); !errors.Is(err, jet.ErrDenied) {
				t.Errorf("read of another station: got %v, want ErrDenied", err)
			}
			if _, err := other.KV(topology.ConfigBucket).Get(within(t), "k"); !errors.Is(err, jet.ErrDenied) {
				t.Errorf("configuration of another station: got %v, want ErrDenied", err)
			}
			if err := mine.KV(topology.ConfigBucket).Put(within(t), "k", []byte("v")); !errors.Is(err, jet.ErrDenied) {
				t.Errorf("change of the configuration: got %v, want ErrDenied", err)
			}
			if err := mine.Publish(within(t), events.TaskSubject("s1"), []byte("{}"), nil); !errors.Is(err, jet.ErrDenied) {
				t.Errorf("a task in a user's name: got %v, want ErrDenied", err)
			}
		})
		t.Run("SAFE-6 DEPL-1 "+string(role)+" can do all its work with its permissions", func(t *testing.T) {
			t.Parallel()
			works(t, s, role)
		})
		t.Run("SAFE-6 "+string(role)+" cannot erase or change streams, nor hear what others are delivered", func(t *testing.T) {
			t.Parallel()
			destroys(t, s, string(role), inboxOf(role))
		})
	}
	t.Run("DEPL-6 SAFE-5 users with one right have that and no other", func(t *testing.T) {
		t.Parallel()
		users(t, s)
	})
}

// works uses every port of a role.
func works(t *testing.T, s *natsserver.Server, role events.Service) {
	c := jettest.Connect(t, s, as(string(role), "x", inboxOf(role)))
	if err := c.Setup().Check(within(t), "s1", role); err != nil {
		t.Errorf("check: %v", err)
	}
	st, err := c.Station("s1")
	if err != nil {
		t.Fatal(err)
	}
	id := "w-" + rand16()
	kind := topology.PublishesEvents(role)[0]
	seq := appendOne(t, st.Journal(), id, kind, 0)
	if evs, _, err := st.Journal().Read(within(t), id, 0); err != nil || len(evs) != 1 {
		t.Errorf("read: got %d events, %v", len(evs), err)
	}
	if last, ok, err := st.Journal().Last(within(t), id); err != nil || !ok || last.Seq != seq {
		t.Errorf("last: got %+v, %v, %v", last, ok, err)
	}
	writes(t, st, role, id)
	for _, family := range topology.SubscriptionsOf(role).Timers {
		timers := st.Timers()
		if aggregate, own, ok := strings.Cut(family, "-"); ok {
			timers, family = st.TimersFor(aggregate), own
		}
		for _, at := range []time.Time{time.Now().Add(-time.Second), time.Now().Add(time.Hour)} {
			if err := timers.Set(within(t), id, family+".x", at, 0); err != nil {
				t.Errorf("timer: %v", err)
			}
		}
	}
	receives(t, s, st, role)
	over := make(chan string, 1024)
	stopOver, err := st.SubscribeRepublished(func(runID string, _ kernel.Record) { over <- runID })
	if err != nil {
		t.Fatalf("overhear: %v", err)
	}
	defer stopOver()
	ended := "e-" + rand16()
	appendOne(t, seenBy(t, s, "admin", "", "s1").Journal(), ended, events.RunFailed, 0)
	for await(t, over, "the event") != ended {
	}
	if _, err := st.Watch(within(t), "*", true, func(jet.Seen) {}); !errors.Is(err, jet.ErrDenied) {
		t.Errorf("watch what is live: got %v, want ErrDenied", err)
	}
	plain := seenBy(t, s, string(role), "", "s1")
	if err := plain.Inbox().Listen(within(t), role, 1, nil); !errors.Is(err, jet.ErrDenied) {
		t.Errorf("listen without the inbox of the role: got %v, want ErrDenied", err)
	}
}

// writes uses the stores, of which each role may write those that it needs.
func writes(t *testing.T, st *jet.Station, role events.Service, id string) {
	kv := st.KV(topology.StateBucket)
	sessions, trees := st.KV(topology.SessionBucket), st.KV(topology.TreeBucket)
	objects := []events.Service{events.Planner, events.Executor, events.Toolrunner, events.Persister}
	for _, c := range []struct {
		what string
		may  []events.Service
		do   func() error
	}{
		{"put object", objects, func() error { _, err := st.Blobs().Put(within(t), "text/plain", []byte(id)); return err }},
		{"put state", []events.Service{events.Persister}, func() error { return kv.Put(within(t), id+".a", []byte("v")) }},
		{"create state", []events.Service{events.Persister}, func() error { return kv.Create(within(t), id+".b", []byte("v")) }},
		{"delete state", []events.Service{events.Persister}, func() error { return kv.Delete(within(t), id+".b") }},
		{"SESS-5 give a lock", []events.Service{events.Planner}, func() error { _, err := sessions.Swap(within(t), "session."+id, []byte("v"), 0); return err }},
		{"SAFE-8 claim a working tree", []events.Service{events.Toolrunner}, func() error { _, err := trees.Swap(within(t), "tree."+id, []byte("v"), 0); return err }},
		{"renew a lease", []events.Service{events.Toolrunner}, func() error { return st.Leases().Renew(within(t), id) }},
		{"refuse input", events.Services(), func() error { return st.Refusals().Refuse(within(t), role, kernel.DeadLetter{Code: "x"}) }},
		{"LIFE-15 look for a letter", events.Services(), func() error {
			_, err := st.Refusals().Refused(within(t), role, unseen{})
			return err
		}},
	} {
		if err := c.do(); slices.Contains(c.may, role) != (err == nil) || err != nil && !errors.Is(err, jet.ErrDenied) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	sum := sha256.Sum256([]byte(id))
	want := slices.Contains(objects, role)
	if b, err := st.Blobs().Get(within(t), events.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(id))}); want != (err == nil) || want && string(b) != id {
		t.Errorf("get object: %q, %v", b, err)
	}
	want = role == events.Persister
	if _, err := kv.Get(within(t), id+".a"); want != (err == nil) {
		t.Errorf("get state: %v", err)
	}
	if _, err := sessions.Get(within(t), "session."+id); (role == events.Planner) != (err == nil) || err != nil && !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("get session: %v", err)
	}
	if keys, err := kv.Keys(within(t), id+"."); err != nil || (len(keys) == 1) != want {
		t.Errorf("keys: got %q, %v", keys, err)
	}
	if alive, err := st.Leases().Alive(within(t), id); err != nil || alive != (role == events.Toolrunner) {
		t.Errorf("alive: got %v, %v", alive, err)
	}
}

// hears has a role hear one message that an admin sees to.
func receives(t *testing.T, s *natsserver.Server, st *jet.Station, role events.Service) {
	admin := seenBy(t, s, "admin", "", "s1")
	kind := events.RunResumed
	if h := topology.SubscriptionsOf(role); !h.All {
		kind = h.Events[0]
	}
	id := "h-" + rand16()
	appendOne(t, admin.Journal(), id, kind, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	received := make(chan string, 1024)
	ended := make(chan error, 1)
	go func() {
		ended <- st.Inbox().Listen(ctx, role, 8, func(ctx context.Context, m kernel.Message) {
			if err := m.Ack(ctx); err == nil {
				received <- m.Subject()
			}
		})
	}()
	for await(t, received, "the event") != events.RunEventSubject("s1", id, kind) {
	}
	cancel()
	if err := await(t, ended, "the listener"); err != nil {
		t.Error(err)
	}
}

// destroys tries what a leaked credential would.
func destroys(t *testing.T, s *natsserver.Server, user, inbox string) {
	opts := []nats.Option{natsUser(user, "x"), quiet}
	if inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(inbox))
	}
	nc, _ := raw(t, s, opts...)
	stored := "$KV." + topology.ConfigBucket + ".s1.k"
	for _, st := range topology.Streams("s1", topology.Limits{}) {
		for _, verb := range []string{"PURGE", "DELETE", "UPDATE", "MSG.DELETE", "SNAPSHOT", "LEADER.STEPDOWN"} {
			if verb == "PURGE" && st.Name == topology.ArtifactStream() && user == string(events.Persister) {
				continue // it takes away what has expired
			}
			ask(t, nc, "$JS.API.STREAM."+verb+"."+st.Name)
		}
		ask(t, nc, "$JS.API.CONSUMER.CREATE."+st.Name+".spy."+"station.s2.>")
		ask(t, nc, "$JS.API.CONSUMER.DURABLE.CREATE."+st.Name+".spy")
	}
	for _, role := range events.Services() {
		if string(role) != user {
			ask(t, nc, "$JS.API.CONSUMER.MSG.NEXT."+topology.Log("s1")+"."+string(role))
			ask(t, nc, "$JS.API.CONSUMER.DELETE."+topology.Log("s1")+"."+string(role))
		}
	}
	ask(t, nc, stored)
	// Nothing of what others get may be heard.
	for _, subject := range []string{"_INBOX_s1_" + other(user) + ".>", "$JS.>", "station.s2.>", "station.s1.run.*.evt.>", ">"} {
		before := nc.LastError()
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushWithContext(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := nc.LastError(); err == before || !errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // another error than before, not one like it
			t.Errorf("subscribe to %s: got %v, want a violation", subject, err)
		}
	}
}

func other(user string) string {
	if user == string(events.Planner) {
		return string(events.Gatekeeper)
	}
	return string(events.Planner)
}

// ask makes a request that must not be let through.
func ask(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	before := nc.LastError()
	if err := nc.PublishRequest(subject, nc.NewInbox(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := nc.LastError(); err == before || !errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // another error than before, not one like it
		t.Errorf("%s: got %v, want a violation", subject, err)
	}
}

// users checks the three rights of people and programs.
func users(t *testing.T, s *natsserver.Server) {
	for user, may := range map[string]map[string]bool{
		"dispatch": {events.TaskSubject("s1"): true, events.TaskSubject("s1") + ".p": true, events.ControlSubject("s1", "r1"): true},
		"approve":  {events.GateSubject("s1", "r1", "g") + ".anna": true},
		"watch":    {},
	} {
		st := seenBy(t, s, user, "", "s1")
		for _, subject := range []string{
			events.TaskSubject("s1"), events.TaskSubject("s1") + ".p", events.ControlSubject("s1", "r1"), events.GateSubject("s1", "r1", "g"),
			events.GateSubject("s1", "r1", "g") + ".anna", events.GateSubject("s1", "r1", "g") + ".bert",
			events.RunEventSubject("s1", "r1", events.CallAllowed), events.TimerSubject("s1", "r1", "run.x"), events.DueSubject("s1", "r1", "run.x"),
			"$KV." + topology.ConfigBucket + ".s1.k", "$O." + topology.FilesBucket + ".M.x", events.DeadSubject("s1", events.Planner),
		} {
			err := st.Publish(within(t), subject, []byte("{}"), nil)
			if may[subject] && err != nil || !may[subject] && !errors.Is(err, jet.ErrDenied) {
				t.Errorf("%s on %s: got %v, want allowed %v", user, subject, err, may[subject])
			}
		}
		_, _, err := st.Journal().Read(within(t), "r1", 0)
		if (err == nil) != (user == "watch") {
			t.Errorf("%s reads the log: got %v", user, err)
		}
		destroys(t, s, user, "")
	}
	watcher := seenBy(t, s, "watch", "", "s1")
	seen := make(chan jet.Seen, 1024)
	stop, err := watcher.Watch(within(t), "*", true, func(x jet.Seen) { seen <- x })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	id := "u-" + rand16()
	appendOne(t, seenBy(t, s, "admin", "", "s1").Journal(), id, events.RunCreated, 0)
	for await(t, seen, "the event").Run != id {
	}
	if _, _, err := watcher.Dead(within(t), 0); err != nil {
		t.Errorf("dead letters: %v", err)
	}
}

// unseen is a message that no one refused, from before all letters.
type unseen struct{ kernel.Message }

func (unseen) Subject() string { return "station.s1.task" }
func (unseen) Seq() uint64     { return 1 }
func (unseen) Time() time.Time { return time.Unix(1, 0) }
