package security

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// actors are all that may connect: the setup user, the services, and people with some rights.
var actors = []string{"setup", "planner", "gatekeeper", "executor", "toolrunner", "persister", "operator", "dispatcher", "watcher", "anna", "hook", "tools", "recorder"}

// outsiders are the people among them. anna may only approve, in her own name.
func outsiders() []topology.User {
	return []topology.User{
		topology.Outsider("s1", "operator", "", topology.MayDispatch, topology.MayWatch, topology.MayApprove, topology.MayHalt, topology.MayBudget),
		topology.Outsider("s1", "dispatcher", "", topology.MayDispatch),
		topology.Outsider("s1", "watcher", "", topology.MayWatch),
		topology.Outsider("s1", "anna", "anna", topology.MayApprove),
		topology.Outsider("s1", "hook", "", topology.MayHook),
		topology.Outsider("s1", "tools", "", topology.MayServe),
		topology.Outsider("s1", "recorder", "", topology.MayRecord),
	}
}

func password(user string) string { return "pw-" + user }

// shipped are the accounts and users as they are shipped, with passwords that the tests know.
func shipped() string {
	return topology.Accounts("s1", outsiders(), func(user string) string { return strconv.Quote(password(user)) }, topology.Setup("s1"))
}

// bed is a server with the shipped accounts and station s1 on it.
type bed struct {
	t   testing.TB
	url string
	// creds is the path of the credentials of a user, nil where users have passwords.
	creds func(user string) string
}

func newBed(t testing.TB) *bed {
	t.Helper()
	s := jettest.Server(t, func(cfg *natsserver.Config) { cfg.Port, cfg.Accounts = -1, shipped() })
	return bedOn(t, s.URL(), 1)
}

// bedOn sets the station up as the setup user, over the network.
func bedOn(t testing.TB, url string, replicas int) *bed {
	t.Helper()
	return bedWith(t, url, jet.ApplyOptions{Replicas: replicas})
}

// bedWith is bedOn with all options.
func bedWith(t testing.TB, url string, o jet.ApplyOptions) *bed {
	t.Helper()
	return (&bed{t: t, url: url}).apply(o)
}

// apply sets the station up as the setup user.
func (b *bed) apply(o jet.ApplyOptions) *bed {
	b.t.Helper()
	if err := b.conn("setup").Setup().Apply(within(b.t), "s1", o); err != nil {
		b.t.Fatal(err)
	}
	return b
}

// inboxOf is where an actor may hear answers.
func inboxOf(user string) string {
	for _, role := range events.Services() {
		if string(role) == user {
			return topology.InboxPrefix("s1", role)
		}
	}
	return "_INBOX"
}

// conn connects as the program does.
func (b *bed) conn(user string) *jet.Conn {
	b.t.Helper()
	cfg := jet.Config{URL: b.url, User: user, Password: secret.New(password(user)), InboxPrefix: inboxOf(user)}
	if b.creds != nil {
		cfg = jet.Config{URL: b.url, Creds: b.creds(user), InboxPrefix: inboxOf(user)}
	}
	c, err := jet.Connect(within(b.t), cfg)
	if err != nil {
		b.t.Fatalf("connect as %s: %v", user, err)
	}
	b.t.Cleanup(c.Close)
	return c
}

func (b *bed) station(user string) *jet.Station {
	b.t.Helper()
	st, err := b.conn(user).Station("s1")
	if err != nil {
		b.t.Fatal(err)
	}
	return st
}

// wire connects as an attacker with the credentials of a user.
func (b *bed) wire(user string) *wire {
	b.t.Helper()
	if b.creds != nil {
		return dialCreds(b.t, b.url, b.creds(user))
	}
	return dial(b.t, b.url, user, password(user))
}

// stored asks the setup user how many messages a stream holds, and how many are missing between its first and last.
func (b *bed) stored(w *wire, stream string) (messages, deleted int) {
	b.t.Helper()
	s := b.state(w, stream)
	if s.Deleted == 0 && s.Messages > 0 {
		s.Deleted = s.Last - s.First + 1 - s.Messages
	}
	return s.Messages, s.Deleted
}

// streamState is what a server says of a stream.
type streamState struct {
	Messages int `json:"messages"`
	Deleted  int `json:"num_deleted"`
	First    int `json:"first_seq"`
	Last     int `json:"last_seq"`
}

func (b *bed) state(w *wire, stream string) streamState {
	b.t.Helper()
	m, err := w.ask("_INBOX", "$JS.API.STREAM.INFO."+stream, "", "")
	if err != nil {
		b.t.Fatal(err)
	}
	var info struct {
		Error *struct{ Description string } `json:"error"`
		State streamState                   `json:"state"`
	}
	if err := json.Unmarshal(m.body, &info); err != nil || info.Error != nil {
		b.t.Fatalf("info of %s: %v %s", stream, err, m.body)
	}
	return info.State
}

// event stores one message on a run as its author, past the ledger.
func (b *bed) event(w *wire, inbox, run, kind, body string) {
	b.t.Helper()
	m, err := w.ask(inbox, fmt.Sprintf("station.s1.run.%s.evt.%s", run, kind), "", body)
	if err != nil || len(m.body) == 0 {
		b.t.Fatalf("%s: %v %s", kind, err, m.header)
	}
}
