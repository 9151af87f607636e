package station

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/callout"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service/signin"
	"github.com/inspan/inspan/internal/topology"
)

// people lets in who comes with a token of the identity provider: the server asks, people answers. Its key is made when
// the station starts and stays in the memory of this process.
type people struct {
	judge signin.Judge
	key   callout.Key
	// conn is the one that the server asks over; nil until the station serves.
	conn *jet.Conn
}

// newPeople is that of a station; nil where its settings let no one in so.
func newPeople(cfg Config) (*people, error) {
	judge, err := signin.New(cfg.Base.Gateway)
	if judge == nil || err != nil {
		return nil, err
	}
	key, err := callout.NewKey()
	if err != nil {
		return nil, fmt.Errorf("key of people who sign in: %w", err)
	}
	return &people{judge: judge, key: key}, nil
}

// connection is the one that the server asks over; nil where there is none.
func (p *people) connection() *jet.Conn {
	if p == nil {
		return nil
	}
	return p.conn
}

// person is who has a token, with the rights of a user of that name.
func (u *users) person(ctx context.Context, token string) (callout.Person, error) {
	p, err := u.people.judge(ctx, token)
	if err != nil {
		return callout.Person{}, err
	}
	return callout.PersonOf(u.cfg.Station, u.outsider(p.Name, p.Name, p.Rights...), p.Until), nil
}

// answerServer has the server of a station let people in from now on, until ctx ends.
func answerServer(ctx context.Context, s *Station) error {
	u := s.users
	if u.people == nil {
		return nil
	}
	desk, err := callout.New(callout.Config{Key: u.people.key, Account: topology.FrontAccount(s.cfg.Station),
		Judge: u.person})
	if err != nil {
		return err
	}
	if u.people.conn, err = u.connect(ctx, topology.CalloutUser, ""); err != nil {
		return err
	}
	serving := make(chan struct{}) // closed once the server knows of it
	s.tasks.running.Go(func() {
		if err := jet.CalloutsOf(u.people.conn).Serve(ctx, desk, func() { close(serving) }); err != nil {
			s.tasks.fail(err)
		}
	})
	select {
	case <-serving:
	case <-ctx.Done():
	}
	return nil
}

// Person connects to a station with a token of the identity provider, with the rights of whose it is. Close must be
// called. There is no such connection where the settings do not let people in so.
func Person(ctx context.Context, s *Station, token string) (*jet.Conn, error) {
	cfg := jet.Config{URL: s.URL(), Name: "inspan-person", Token: secret.New(token), Buckets: s.cfg.buckets(),
		DrainGrace: s.cfg.Base.Drain, Log: s.cfg.Log}
	if cfg.URL == "" { // within the process a refusal comes late: the server waits until it is read, and no one reads
		cfg.InProcess = s.server
	}
	return jet.Connect(ctx, cfg)
}
