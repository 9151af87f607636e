package jettest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// Operator keeps the keys of an operator and of the accounts of a station while a test lasts.
type Operator struct {
	t     testing.TB
	cfg   claims.Config
	seeds map[string]secret.Value
	dir   string
	// Made is what was made last.
	Made claims.Made
}

// NewOperator makes an operator, the accounts of a station and credentials of its users.
func NewOperator(t testing.TB, station string, outsiders []topology.User, administrators ...topology.User) *Operator {
	t.Helper()
	o := &Operator{t: t, seeds: map[string]secret.Value{}, dir: t.TempDir()}
	o.cfg = claims.Config{Station: station, Outsiders: outsiders, Administrators: administrators, Seed: o.seed,
		Credentials: o.credentials, Now: time.Now(), Revoked: map[string]time.Time{}}
	o.Make()
	return o
}

// Make signs all accounts again; change may alter what is made.
func (o *Operator) Make(change ...func(*claims.Config)) {
	o.t.Helper()
	for _, f := range change {
		f(&o.cfg)
	}
	o.cfg.OperatorToken = o.Made.Operator
	made, err := claims.Make(o.cfg)
	if err != nil {
		o.t.Fatalf("make accounts: %v", err)
	}
	o.Made = made
	for _, u := range made.Users {
		if err := os.WriteFile(o.Creds(u.Name), []byte(u.Credentials.Reveal()), 0o600); err != nil {
			o.t.Fatal(err)
		}
	}
}

// Config is the part of a server's configuration with the operator and its accounts.
func (o *Operator) Config() string { return o.Made.ServerConfig() }

// Creds is the path of the credentials of a user.
func (o *Operator) Creds(user string) string { return filepath.Join(o.dir, user+".creds") }

// Key is the public key of a user.
func (o *Operator) Key(user string) string { return claims.KeyOf(o.credentials(user)) }

func (o *Operator) seed(name string, kind claims.Kind) (secret.Value, error) {
	if s, ok := o.seeds[name]; ok {
		return s, nil
	}
	s, err := claims.NewSeed(kind)
	o.seeds[name] = s
	return s, err
}

func (o *Operator) credentials(user string) []byte {
	b, err := os.ReadFile(o.Creds(user))
	if err != nil {
		return nil // there are none yet
	}
	return b
}

// SignNonce answers the nonce in the first line of a server with credentials, as a client by hand does.
func SignNonce(t testing.TB, creds, info string) (token, signature string) {
	t.Helper()
	b, err := os.ReadFile(creds)
	if err != nil {
		t.Fatal(err)
	}
	var first struct{ Nonce string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(info), "INFO ")), &first); err != nil {
		t.Fatalf("first line of the server: %v: %s", err, info)
	}
	if token, err = jwt.ParseDecoratedJWT(b); err != nil {
		t.Fatal(err)
	}
	pair, err := jwt.ParseDecoratedUserNKey(b)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := pair.Sign([]byte(first.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	return token, base64url(signed)
}

// ConnectLine is how many bytes the line is in which a user with credentials connects; a server takes 4,096 unless it
// is configured otherwise.
func ConnectLine(t testing.TB, creds string) int {
	t.Helper()
	token, signature := SignNonce(t, creds, `INFO {"nonce":"0123456789abcdef"}`)
	return len(token) + len(signature) + 512 // and what a client says of itself
}

// FirstLine reads the first line that a server sends.
func FirstLine(t testing.TB, conn net.Conn, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s sent nothing: %v", conn.RemoteAddr(), err)
	}
	return string(bytes.TrimSpace(line))
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Stranger is an account of the same operator that tries to import what another one exports, without a token.
type Stranger struct {
	// Config is that of the server with the account added, Creds are credentials of a user of it who may do anything.
	Config, Creds string
	// Subjects are those that it tried to import, with "x" for each wildcard.
	Subjects []string
}

// Thief makes such an account. owner is the name of the account with the exports.
func Thief(t testing.TB, o *Operator, owner string) Stranger {
	t.Helper()
	account, key := pairOf(t, nkeys.CreateAccount)
	c := jwt.NewAccountClaims(key)
	c.Name = "stranger"
	var out Stranger
	for _, a := range o.Made.Accounts {
		if a.Name != owner {
			continue
		}
		exported, err := jwt.DecodeAccountClaims(a.Token)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range exported.Exports {
			if e.IsService() {
				c.Imports.Add(&jwt.Import{Subject: e.Subject, Account: a.Key, Type: jwt.Service})
				out.Subjects = append(out.Subjects, strings.NewReplacer("*", "x", ">", "x").Replace(string(e.Subject)))
			}
		}
	}
	signer, err := nkeys.FromSeed([]byte(o.seeds[claims.OperatorName].Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Encode(signer)
	if err != nil {
		t.Fatal(err)
	}
	made := o.Made
	made.Accounts = append(slices.Clone(made.Accounts), claims.MadeAccount{Name: "stranger", Key: key, Token: token})
	out.Config = made.ServerConfig()
	user, userKey := pairOf(t, nkeys.CreateUser)
	u, err := jwt.NewUserClaims(userKey).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(u, seed)
	if err != nil {
		t.Fatal(err)
	}
	out.Creds = filepath.Join(t.TempDir(), "stranger.creds")
	if err := os.WriteFile(out.Creds, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func pairOf(t testing.TB, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// Expiring are credentials of a user that end after a time. Those in the user's file stay.
func (o *Operator) Expiring(user string, life time.Duration) ([]byte, error) {
	cfg := o.cfg
	cfg.Life, cfg.Now, cfg.Credentials = life, time.Now(), func(string) []byte { return nil }
	made, err := claims.Make(cfg)
	if err != nil {
		return nil, err
	}
	for _, u := range made.Users {
		if u.Name == user {
			return []byte(u.Credentials.Reveal()), nil
		}
	}
	return nil, fmt.Errorf("there is no user %s", user)
}
