// Package callout answers a NATS server that asks who a connection is (auth callout).
//
// Promises: whoever has no token that is judged good is refused, and so is everyone where a request or an answer is not
// whole: nothing is let in by mistake. A person gets the rights that the judge names and no others, in one account, and
// for no longer than their token and MaxLife allow. What is signed holds for the one connection that the server asked
// about. A token is not kept, logged or sent anywhere.
package callout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// MaxLife is how long a connection may last before its person must sign in again.
const MaxLife = 15 * time.Minute

// leeway is how far the clock of the server may differ.
const leeway = 5 * time.Second

// Person is who has a token, and what that lets them do.
type Person struct {
	// Name is the last token of the subjects on which the person answers gates.
	Name string
	// Publish and Subscribe are the subjects as the server of the account sees them.
	Publish, Subscribe []string
	// Until is when the token ends.
	Until time.Time
}

// PersonOf is a person with the rights of a user of a station. One whose rights are the answers to what no one may ask
// is let in to nothing.
func PersonOf(station string, u topology.User, until time.Time) Person {
	p := Person{Name: u.Name, Until: until}
	if len(u.Publish) > 0 {
		p.Publish, p.Subscribe = topology.InFront(station, u).Publish, u.Subscribe
	}
	return p
}

// Judge says who has a token. Its error says why it does not count.
type Judge func(ctx context.Context, token string) (Person, error)

// ErrNoToken means that a connection of no user of the server has no token, either.
var ErrNoToken = errors.New("no token: connect as a user of the server, or with a token of the provider")

// errStale means that the server does not wait for an answer any more.
var errStale = errors.New("the server has stopped waiting")

// Key signs answers. Whoever has it can have the server take anyone for anyone.
type Key struct {
	pair   nkeys.KeyPair
	public string
}

// NewSeed makes the seed of a key, which is secret, and its public half.
func NewSeed() (seed secret.Value, public string, err error) {
	pair, err := nkeys.CreateAccount()
	if err != nil {
		return seed, "", err
	}
	if public, err = pair.PublicKey(); err != nil {
		return seed, "", err
	}
	b, err := pair.Seed()
	return secret.New(string(b)), public, err
}

// NewKey makes a key.
func NewKey() (Key, error) {
	seed, _, err := NewSeed()
	if err != nil {
		return Key{}, err
	}
	return KeyOf(seed)
}

// KeyOf reads the seed of a key.
func KeyOf(seed secret.Value) (Key, error) {
	pair, err := nkeys.FromSeed([]byte(seed.Reveal()))
	if err != nil {
		return Key{}, errors.New("it is no seed of an NKey: SA and 56 more characters, as nk -gen account prints it")
	}
	public, err := pair.PublicKey()
	if err == nil && !nkeys.IsValidPublicAccountKey(public) {
		err = errors.New("it is the seed of another kind of key: one of an account begins with SA")
	}
	return Key{pair, public}, err
}

// Public is what the configuration of the server names.
func (k Key) Public() string { return k.public }

// Config of a desk.
type Config struct {
	Key Key
	// Account is the one that people are let in to.
	Account string
	Judge   Judge
	// Now may be nil for the time.
	Now func() time.Time
}

// Desk answers the server. It is safe for concurrent use.
type Desk struct{ cfg Config }

// New makes a desk.
func New(cfg Config) (*Desk, error) {
	if cfg.Key.pair == nil || cfg.Account == "" || cfg.Judge == nil {
		return nil, errors.New("auth callout: a key, an account and a judge of tokens are needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Desk{cfg}, nil
}

// Answer answers one request of the server. reply is nil where there is nothing to answer, which refuses, too. why says
// why someone was refused, and is for the log: the client learns only that it was.
func (d *Desk) Answer(ctx context.Context, request []byte) (reply []byte, name string, why error) {
	ask, err := d.read(request)
	if err != nil {
		return nil, "", err
	}
	out := jwt.NewAuthorizationResponseClaims(ask.UserNkey)
	out.Audience = ask.Server.ID
	p, why := d.judge(ctx, ask)
	if why == nil {
		out.Jwt, why = d.sign(ask, p)
	}
	if why != nil {
		out.Error = "not let in"
	}
	signed, err := out.Encode(d.cfg.Key.pair)
	if err != nil {
		return nil, p.Name, errors.Join(why, fmt.Errorf("sign the answer: %w", err))
	}
	return []byte(signed), p.Name, why
}

// read checks what the server sent.
func (d *Desk) read(request []byte) (*jwt.AuthorizationRequestClaims, error) {
	ask, err := jwt.DecodeAuthorizationRequestClaims(string(request))
	if err != nil {
		return nil, fmt.Errorf("request of the server: %w", err)
	}
	found := jwt.CreateValidationResults()
	if ask.Validate(found); len(found.Errors()) > 0 {
		return nil, fmt.Errorf("request of the server: %w", errors.Join(found.Errors()...))
	}
	if ask.Subject != d.cfg.Key.public {
		return nil, errors.New("request of the server: it is for another key: the server's configuration names " + ask.Subject)
	}
	if ask.Expires != 0 && d.cfg.Now().After(time.Unix(ask.Expires, 0).Add(leeway)) {
		return nil, errStale
	}
	return ask, nil
}

// judge says who a connection is. The token may come as a password: some clients have no other place for it.
func (d *Desk) judge(ctx context.Context, ask *jwt.AuthorizationRequestClaims) (Person, error) {
	token := ask.ConnectOptions.Token
	if token == "" {
		token = ask.ConnectOptions.Password
	}
	if token == "" {
		return Person{}, ErrNoToken
	}
	p, err := d.cfg.Judge(ctx, token)
	if err != nil {
		return Person{}, err
	}
	if err := events.CheckID("name of the person", p.Name); err != nil {
		return Person{}, err
	}
	if len(p.Publish) == 0 || len(p.Subscribe) == 0 { // an empty list would allow everything
		return Person{}, fmt.Errorf("%s may do nothing here: no value of the claim grants a right", p.Name)
	}
	return p, nil
}

// sign makes the user of one connection.
func (d *Desk) sign(ask *jwt.AuthorizationRequestClaims, p Person) (string, error) {
	now := d.cfg.Now()
	until := now.Add(MaxLife)
	if p.Until.Before(until) {
		until = p.Until
	}
	if !until.After(now) {
		return "", errors.New("the token has ended")
	}
	user := jwt.NewUserClaims(ask.UserNkey)
	user.Audience = d.cfg.Account
	user.Expires = until.Unix()
	user.Pub.Allow.Add(p.Publish...)
	user.Sub.Allow.Add(p.Subscribe...)
	signed, err := user.Encode(d.cfg.Key.pair)
	if err != nil {
		return "", fmt.Errorf("sign the user: %w", err)
	}
	return signed, nil
}
