package jet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/callout"
	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// frontDesk is a server that asks who people are, and who answers it.
type frontDesk struct {
	t      *testing.T
	server *natsserver.Server
	key    callout.Key
	// life is how long a token lasts, bad fails those that are judged.
	life atomic.Int64
	// judged counts the tokens that were looked at.
	judged atomic.Int64
}

const front = "station-s1"

// person is what good tokens are: "good NAME".
func (d *frontDesk) person(_ context.Context, token string) (callout.Person, error) {
	d.judged.Add(1)
	name, ok := strings.CutPrefix(token, "good ")
	if !ok {
		return callout.Person{}, errors.New("the token does not count")
	}
	as := topology.InFront("s1", topology.Outsider("s1", name, name, topology.MayWatch, topology.MayApprove))
	return callout.Person{Name: name, Publish: as.Publish, Subscribe: as.Subscribe,
		Until: time.Now().Add(time.Duration(d.life.Load()))}, nil
}

// accounts of the server, with one more user.
func (d *frontDesk) accounts(more ...topology.User) string {
	return topology.Buckets{}.CalloutAccounts("s1", d.key.Public(),
		append([]topology.User{topology.Outsider("s1", "local", "", topology.MayDispatch, topology.MayWatch, topology.MayApprove)}, more...),
		func(user string) string { return strconv.Quote("x-" + user) }, topology.Setup("s1"))
}

func newFrontDesk(t *testing.T) *frontDesk {
	t.Helper()
	key, err := callout.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	d := &frontDesk{t: t, key: key}
	d.life.Store(int64(time.Hour))
	d.server = jettest.Server(t, func(c *natsserver.Config) { c.Accounts, c.Port = d.accounts(), -1 })
	return d
}

// open has the desk answer until the function that it returns is called.
func (d *frontDesk) open(change ...func(*callout.Config)) (shut func()) {
	d.t.Helper()
	cfg := callout.Config{Key: d.key, Account: front, Judge: d.person}
	for _, f := range change {
		f(&cfg)
	}
	desk, err := callout.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	conn := jettest.Connect(d.t, d.server, jet.Config{User: topology.CalloutUser,
		Password: secret.New("x-" + topology.CalloutUser), Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(d.t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- jet.CalloutsOf(conn).Serve(ctx, desk, func() { close(ready) }) }()
	<-ready
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	})
}

// enter connects as any client does, with nothing of this program.
func (d *frontDesk) enter(opts ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(d.server.URL(), append([]nats.Option{nats.Timeout(time.Minute), nats.NoReconnect(), quiet}, opts...)...)
	if err == nil {
		d.t.Cleanup(nc.Close)
	}
	return nc, err
}

// refused wants a connection to be refused. Where the server takes long for that, it sends a ping before, which the
// client does not expect: it is asked again.
func (d *frontDesk) refused(t *testing.T, opts ...nats.Option) {
	t.Helper()
	for {
		nc, err := d.enter(opts...)
		if err != nil && strings.Contains(err.Error(), "got 'PING'") && t.Context().Err() == nil {
			continue
		}
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("got %v, %v, want a refusal", nc, err)
		}
		return
	}
}

// may says whether a connection may publish on a subject, or with a verb of its own subscribe to it.
func may(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	if err := errors.Join(nc.Publish(subject, nil), nc.FlushTimeout(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return !denied(nc, "Publish", subject)
}

// denied reports whether the last refusal is that of a subject. The server names it as it is mapped.
func denied(nc *nats.Conn, what, subject string) bool {
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(what)) &&
		strings.Contains(err.Error(), strings.TrimPrefix(subject, "$JS")+`"`)
}

func TestCallout(t *testing.T) {
	t.Parallel()
	d := newFrontDesk(t)
	local := func(t *testing.T) *nats.Conn {
		t.Helper()
		nc, err := d.enter(nats.UserInfo("local", "x-local"))
		if err != nil {
			t.Fatalf("a user of the server: %v", err)
		}
		return nc
	}
	t.Run("PLUS-22 while no one answers the server lets in its own users and no one else", func(t *testing.T) {
		local(t)
		began := time.Now()
		d.refused(t, nats.Token("good ann"))
		t.Logf("refused after %s", time.Since(began).Round(10*time.Millisecond))
	})
	shut := d.open()
	t.Run("PLUS-22 a plain client with a token is the person, with the rights of a user of that name", func(t *testing.T) {
		for how, login := range map[string]nats.Option{"as a token": nats.Token("good ann"), "as a password": nats.UserInfo("ann", "good ann")} {
			nc, err := d.enter(login)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			for subject, want := range map[string]bool{"station.s1.run.r1.gate.g1.ann": true, "station.s1.run.r1.gate.g1.bob": false,
				"station.s1.run.r1.gate.g1": false, "station.s1.run.r1.gate.g1.gateway": false, "station.s1.task": false,
				"station.s1.run.r1.evt.gate.approved": false, "$JS.API.STREAM.INFO.LOG_s1": true,
				"$JS.API.STREAM.DELETE.LOG_s1": false, topology.CalloutSubject: false} {
				if got := may(t, nc, subject); got != want {
					t.Errorf("%s: publish on %s: got %v, want %v", how, subject, got, want)
				}
			}
		}
	})
	t.Run("PLUS-22 who has no token, a bad one, or that of another user is refused, and users are not asked about", func(t *testing.T) {
		before := d.judged.Load()
		local(t)
		d.refused(t)
		d.refused(t, nats.UserInfo(topology.CalloutUser, "good ann"))
		d.refused(t, nats.UserInfo("gatekeeper", "good ann"))
		if n := d.judged.Load() - before; n != 0 {
			t.Errorf("%d were judged", n)
		}
		// A token in the place of a user's password is whose it is, and never that user.
		nc, err := d.enter(nats.UserInfo("local", "good ann"))
		if err != nil {
			t.Fatal(err)
		}
		if may(t, nc, "station.s1.task") || !may(t, nc, "station.s1.run.r1.gate.g1.ann") {
			t.Error("it has the rights of the user")
		}
		d.refused(t, nats.Token("bad"))
		d.refused(t, nats.Token("good "+strings.Repeat("x", 65))) // a name that is no token of a subject
		for _, name := range []string{"*", ">", "a.b", "a b", "", "ä"} {
			d.refused(t, nats.Token("good "+name))
		}
	})
	t.Run("PLUS-22 the server's question reaches no one else, and no one else can answer it", func(t *testing.T) {
		nc, err := d.enter(nats.Token("good ann"))
		if err != nil {
			t.Fatal(err)
		}
		for name, one := range map[string]*nats.Conn{"a person": nc, "a user": local(t)} {
			if _, err := one.SubscribeSync(topology.CalloutSubject); err != nil {
				t.Fatal(err)
			}
			if err := one.FlushTimeout(time.Minute); err != nil {
				t.Fatal(err)
			}
			if !denied(one, "Subscription", topology.CalloutSubject) {
				t.Errorf("%s may subscribe to what the server asks: %v", name, one.LastError())
			}
		}
		asker, err := d.enter(nats.UserInfo(topology.CalloutUser, "x-"+topology.CalloutUser))
		if err != nil {
			t.Fatal(err)
		}
		for subject, want := range map[string]bool{"station.s1.task": false, topology.CalloutSubject: false, "$JS.API.INFO": false} {
			if got := may(t, asker, subject); got != want {
				t.Errorf("who answers may publish on %s: %v", subject, got)
			}
		}
	})
	t.Run("PLUS-22 users that change have the server ask again about people, who are back at once", func(t *testing.T) {
		back := make(chan struct{}, 16)
		nc, err := nats.Connect(d.server.URL(), nats.Token("good ann"), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), quiet,
			nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		user := local(t)
		_, public, err := userkey.New()
		if err != nil {
			t.Fatal(err)
		}
		before := d.judged.Load()
		if err := d.server.SetAccounts(d.accounts(topology.User{Name: "eve", Key: public, Publish: []string{"x"}, Subscribe: []string{"x"}}), ""); err != nil {
			t.Fatal(err)
		}
		select {
		case <-back:
		case <-time.After(5 * time.Minute):
			t.Fatal("the person is not back")
		}
		if d.judged.Load() == before || !may(t, nc, "station.s1.run.r1.gate.g1.ann") || may(t, nc, "station.s1.run.r1.gate.g1.bob") {
			t.Error("the rights have changed, or no one looked at the token")
		}
		if err := user.FlushTimeout(time.Minute); err != nil {
			t.Errorf("a user of the server noticed: %v", err)
		}
	})
	t.Run("PLUS-22 a flood of bad tokens keeps no user of the server out, and no person once it is over", func(t *testing.T) {
		var flood sync.WaitGroup
		for range 8 {
			flood.Go(func() {
				for range 40 {
					d.refused(t, nats.Token("bad"))
				}
			})
		}
		for range 20 {
			local(t).Close()
		}
		flood.Wait()
		nc, err := d.enter(nats.Token("good ann"))
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	})
	t.Run("PLUS-22 the connection ends when the token does", func(t *testing.T) {
		d.life.Store(int64(3 * time.Second))
		gone := make(chan struct{})
		nc, err := d.enter(nats.Token("good ann"), quiet, nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		select {
		case <-gone:
		case <-time.After(5 * time.Minute):
			t.Error("it goes on")
		}
		d.life.Store(int64(-time.Second))
		d.refused(t, nats.Token("good ann"))
		d.life.Store(int64(time.Hour))
	})
	t.Run("PLUS-22 a person is let in for 15 minutes at most", func(t *testing.T) {
		at := time.Now().Truncate(time.Second)
		desk, err := callout.New(callout.Config{Key: d.key, Account: front, Judge: d.person, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		user := d.signed(t, desk, "good ann")
		if got := time.Unix(user.Expires, 0).Sub(at); got != callout.MaxLife || user.Audience != front {
			t.Errorf("for %s in %s", got, user.Audience)
		}
		if user.Pub.Allow.Contains(">") || len(user.Pub.Allow) == 0 || len(user.Sub.Allow) == 0 {
			t.Errorf("%+v", user.Pub)
		}
	})
	shut()
	t.Run("PLUS-22 answers of another key, for another connection, and none at all let no one in", func(t *testing.T) {
		stranger, err := callout.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(*callout.Config){
			"another key":     func(c *callout.Config) { c.Key = stranger },
			"no such account": func(c *callout.Config) { c.Account = "other" },
			"no rights at all": func(c *callout.Config) {
				c.Judge = func(context.Context, string) (callout.Person, error) {
					return callout.Person{Name: "ann", Until: time.Now().Add(time.Hour)}, nil
				}
			},
		} {
			shut := d.open(change)
			t.Log(what)
			d.refused(t, nats.Token("good ann"))
			shut()
		}
		shut := d.answering(t, func(m *nats.Msg) {})
		d.refused(t, nats.Token("good ann"))
		shut()
	})
	t.Run("PLUS-22 an answer that comes twice is one, and one for an earlier connection is none", func(t *testing.T) {
		desk, err := callout.New(callout.Config{Key: d.key, Account: front, Judge: d.person})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var earlier []byte
		shut := d.answering(t, func(m *nats.Msg) {
			reply, _, _ := desk.Answer(t.Context(), m.Data)
			mu.Lock()
			defer mu.Unlock()
			if earlier != nil {
				reply = earlier
			}
			earlier = reply
			_ = errors.Join(m.Respond(reply), m.Respond(reply))
		})
		defer shut()
		nc, err := d.enter(nats.Token("good ann"))
		if err != nil {
			t.Fatal(err)
		}
		if !may(t, nc, "station.s1.run.r1.gate.g1.ann") {
			t.Error("the second answer took the rights away")
		}
		d.refused(t, nats.Token("good ann")) // the earlier answer is sent once more
	})
}

// answering has somebody with the password of the one who answers do it otherwise.
func (d *frontDesk) answering(t *testing.T, answer func(*nats.Msg)) (shut func()) {
	t.Helper()
	nc, err := d.enter(nats.UserInfo(topology.CalloutUser, "x-"+topology.CalloutUser))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe(topology.CalloutSubject, answer); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	return nc.Close
}

// signed is the user that a desk makes of a token.
func (d *frontDesk) signed(t *testing.T, desk *callout.Desk, token string) *jwt.UserClaims {
	t.Helper()
	server, err := nkeys.CreateServer()
	if err != nil {
		t.Fatal(err)
	}
	_, user, err := userkey.New()
	if err != nil {
		t.Fatal(err)
	}
	ask := jwt.NewAuthorizationRequestClaims(d.key.Public())
	ask.UserNkey, ask.Server.ID, ask.ConnectOptions.Token = user, "server", token
	request, err := ask.Encode(server)
	if err != nil {
		t.Fatal(err)
	}
	reply, _, why := desk.Answer(t.Context(), []byte(request))
	if why != nil {
		t.Fatal(why)
	}
	answer, err := jwt.DecodeAuthorizationResponseClaims(string(reply))
	if err != nil {
		t.Fatal(err)
	}
	out, err := jwt.DecodeUserClaims(answer.Jwt)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCalloutRights(t *testing.T) {
	t.Parallel()
	d := newFrontDesk(t)
	desk, err := callout.New(callout.Config{Key: d.key, Account: front, Judge: d.person})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-22 a person has the rights of a user of that name, from one table", func(t *testing.T) {
		user := d.signed(t, desk, "good ann")
		as := topology.Outsider("s1", "ann", "ann", topology.MayWatch, topology.MayApprove)
		text := d.accounts(as)
		for _, subject := range user.Pub.Allow {
			if !strings.Contains(text, fmt.Sprintf("%q", subject)) {
				t.Errorf("a user of the server may not publish on %s", subject)
			}
		}
		if len(user.Pub.Allow) != len(slices.Compact(slices.Sorted(slices.Values(as.Publish)))) || !slices.Equal(slices.Sorted(slices.Values(user.Sub.Allow)), slices.Compact(slices.Sorted(slices.Values(as.Subscribe)))) {
			t.Errorf("%v\n%v", user.Pub.Allow, as.Publish)
		}
	})
	t.Run("PLUS-22 seeds of other kinds of keys are refused, with what is wanted", func(t *testing.T) {
		seed, _, err := userkey.New()
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"", "SA", string(seed)} {
			if _, err := callout.KeyOf(secret.New(bad)); err == nil || !strings.Contains(err.Error(), "SA") {
				t.Errorf("%.4q: %v", bad, err)
			}
		}
	})
}
