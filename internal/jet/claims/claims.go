// Package claims writes the accounts and users of a station as signed claims (JWTs), for NATS servers in operator mode.
//
// Promises: the rights are those of package topology, the same as in a configuration file with passwords. They are in
// the account, in a signing key for each user (a scoped signing key), and not in the user's own claims: these stay far
// below what a server takes in one line, and a new version changes an account and no credentials. What one account
// exports only the other one can import, with a token that names it. Nothing is read or written here: whoever calls
// keeps the seeds and the files.
package claims

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// Kind of a key.
type Kind string

// An operator signs accounts, an account and its signing keys sign users.
const (
	Operator Kind = "operator"
	Account  Kind = "account"
)

// Names of what is made for an operator of our own.
const (
	OperatorName = "operator"
	SystemName   = "system"
)

// Config says what is made.
type Config struct {
	Station string
	Buckets topology.Buckets
	// Outsiders are in the account of the services, Administrators in that of the streams.
	Outsiders, Administrators []topology.User
	// Seed returns the seed of a name, and makes and keeps one where there is none. The names are those of accounts and,
	// for the signing key of a user, "ACCOUNT.USER".
	Seed func(name string, kind Kind) (secret.Value, error)
	// OperatorSeed is the key of an operator that there is; empty makes an operator and its system account, too.
	OperatorSeed secret.Value
	// OperatorToken is what was made of the operator before; it stays: a server that runs takes no other, not even one
	// that says the same.
	OperatorToken string
	// Credentials returns the credentials that a user has, nil for none. Those that are still good stay.
	Credentials func(user string) []byte
	// Revoked are public keys of users that are no longer good, and since when.
	Revoked map[string]time.Time
	// Life of new credentials, 0 for no end.
	Life time.Duration
	// StoreBytes bounds what the streams may take; 0 leaves it to the server.
	StoreBytes int64
	Now        time.Time
}

// Made is what a server, and those who connect to it, need.
type Made struct {
	// Operator is empty where the operator is another's.
	Operator string
	Accounts []MadeAccount
	Users    []MadeUser
}

// MadeAccount is an account, signed.
type MadeAccount struct{ Name, Key, Token string }

// MadeUser is a user with its credentials.
type MadeUser struct {
	Name, Account, Key string
	Credentials        secret.Value
	// Fresh says that the credentials are new. Expires is the zero time where they have no end.
	Fresh   bool
	Expires time.Time
}

// NewSeed makes the seed of a key.
func NewSeed(kind Kind) (secret.Value, error) {
	create := nkeys.CreateAccount
	if kind == Operator {
		create = nkeys.CreateOperator
	}
	pair, err := create()
	if err != nil {
		return secret.Value{}, err
	}
	seed, err := pair.Seed()
	return secret.New(string(seed)), err
}

// pairOf reads a seed.
func pairOf(seed secret.Value, kind Kind) (nkeys.KeyPair, string, error) {
	prefix, valid := "SA", nkeys.IsValidPublicAccountKey
	if kind == Operator {
		prefix, valid = "SO", nkeys.IsValidPublicOperatorKey
	}
	pair, err := nkeys.FromSeed([]byte(seed.Reveal()))
	if err != nil {
		return nil, "", fmt.Errorf("it is no seed of an NKey: want %s and 56 more characters, as nsc keeps them", prefix)
	}
	public, err := pair.PublicKey()
	if err == nil && !valid(public) {
		err = fmt.Errorf("it is the seed of another kind of key: one of an %s begins with %s", kind, prefix)
	}
	return pair, public, err
}

// CheckOperator says what is wrong with the seed of an operator, and returns its public half.
func CheckOperator(seed secret.Value) (public string, err error) {
	_, public, err = pairOf(seed, Operator)
	return public, err
}

// maker has the keys while claims are made.
type maker struct {
	cfg  Config
	keys map[string]nkeys.KeyPair
	// signer signs accounts.
	signer nkeys.KeyPair
	out    Made
}

// Make makes all accounts and users of a station.
func Make(cfg Config) (Made, error) {
	m := &maker{cfg: cfg, keys: make(map[string]nkeys.KeyPair)}
	if err := m.operator(); err != nil {
		return Made{}, err
	}
	streams, front := cfg.Buckets.AccountsOf(cfg.Station, cfg.Outsiders, cfg.Administrators...)
	for _, a := range []topology.Account{streams, front} {
		if err := m.account(a); err != nil {
			return Made{}, fmt.Errorf("account %s: %w", a.Name, err)
		}
		for _, u := range a.Users {
			if err := m.user(a.Name, u.Name, a.Name+"."+u.Name); err != nil {
				return Made{}, fmt.Errorf("user %s of account %s: %w", u.Name, a.Name, err)
			}
		}
	}
	return m.out, nil
}

// key returns the key pair of a name and its public half.
func (m *maker) key(name string, kind Kind) (nkeys.KeyPair, string, error) {
	if pair := m.keys[name]; pair != nil {
		public, err := pair.PublicKey()
		return pair, public, err
	}
	seed, err := m.cfg.Seed(name, kind)
	if err != nil {
		return nil, "", fmt.Errorf("key %s: %w", name, err)
	}
	pair, public, err := pairOf(seed, kind)
	if err != nil {
		return nil, "", fmt.Errorf("key %s: %w", name, err)
	}
	m.keys[name] = pair
	return pair, public, nil
}

// operator finds who signs accounts. One of our own gets a system account, without which no server of it starts.
func (m *maker) operator() (err error) {
	if !m.cfg.OperatorSeed.Empty() {
		m.signer, _, err = pairOf(m.cfg.OperatorSeed, Operator)
		return err
	}
	pair, public, err := m.key(OperatorName, Operator)
	if err != nil {
		return err
	}
	m.signer = pair
	_, system, err := m.key(SystemName, Account)
	if err != nil {
		return err
	}
	claims := jwt.NewOperatorClaims(public)
	claims.Name, claims.SystemAccount = "inspan-"+m.cfg.Station, system
	there, err := jwt.DecodeOperatorClaims(m.cfg.OperatorToken)
	if err == nil && there.Subject == public && there.SystemAccount == system {
		m.out.Operator = m.cfg.OperatorToken
	} else if m.out.Operator, err = claims.Encode(pair); err != nil {
		return fmt.Errorf("sign the operator: %w", err)
	}
	if err := m.sign(SystemName, jwt.NewAccountClaims(system)); err != nil {
		return err
	}
	return m.user(SystemName, SystemName, SystemName)
}

// account makes the claims of one account: a scoped signing key for each user, its exports and its imports.
func (m *maker) account(a topology.Account) error {
	_, public, err := m.key(a.Name, Account)
	if err != nil {
		return err
	}
	claims := jwt.NewAccountClaims(public)
	if a.JetStream {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit,
			Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit}
		if m.cfg.StoreBytes > 0 {
			claims.Limits.DiskStorage = m.cfg.StoreBytes
		}
	}
	for key, since := range m.cfg.Revoked {
		claims.RevokeAt(key, since)
	}
	for _, u := range a.Users {
		if err := m.scope(claims, a.Name, u); err != nil {
			return err
		}
	}
	for _, e := range a.Exports {
		claims.Exports.Add(export(e))
	}
	for _, i := range a.Imports {
		own, err := m.imported(public, i)
		if err != nil {
			return fmt.Errorf("import %s: %w", i.Subject, err)
		}
		claims.Imports.Add(own)
	}
	for _, x := range a.Mappings {
		claims.AddMapping(jwt.Subject(x.From), jwt.WeightedMapping{Subject: jwt.Subject(x.To)})
	}
	return m.sign(a.Name, claims)
}

// scope gives an account the signing key of one user, with the rights of that user.
func (m *maker) scope(claims *jwt.AccountClaims, account string, u topology.User) error {
	_, public, err := m.key(account+"."+u.Name, Account)
	if err != nil {
		return err
	}
	if len(u.Publish)+len(u.Subscribe) == 0 { // empty lists would allow everything
		return fmt.Errorf("user %s may do nothing", u.Name)
	}
	scope := jwt.NewUserScope()
	scope.Key, scope.Role, scope.Description = public, u.Name, "as inspan made it"
	pub, sub := &scope.Template.Pub, &scope.Template.Sub
	pub.Allow.Add(topology.Allowed(u.Publish)...)
	sub.Allow.Add(topology.Allowed(u.Subscribe)...)
	if len(u.Publish) == 0 {
		pub.Deny.Add(">")
	}
	if len(u.Subscribe) == 0 {
		sub.Deny.Add(">")
	}
	claims.SigningKeys.AddScopedSigner(scope)
	return nil
}

// export is one that only who has a token can import.
func export(e topology.Export) *jwt.Export {
	out := &jwt.Export{Name: e.Subject, Subject: jwt.Subject(e.Subject), Type: jwt.Stream, TokenReq: true}
	if e.Service {
		out.Type, out.ResponseType = jwt.Service, jwt.ResponseTypeSingleton
	}
	if e.Several {
		out.ResponseType, out.ResponseThreshold = jwt.ResponseTypeStream, topology.AnswerWait
	}
	return out
}

// imported is an import with its token, which the exporting account signs for the importing one.
func (m *maker) imported(importer string, i topology.Import) (*jwt.Import, error) {
	pair, exporter, err := m.key(i.From, Account)
	if err != nil {
		return nil, err
	}
	out := &jwt.Import{Name: i.Subject, Subject: jwt.Subject(i.Subject), Account: exporter, Type: jwt.Stream}
	if i.Service {
		out.Type = jwt.Service
	}
	if i.As != i.Subject {
		out.LocalSubject = jwt.RenamingSubject(i.As)
	}
	activation := jwt.NewActivationClaims(importer)
	activation.Name = i.Subject
	activation.ImportSubject, activation.ImportType = out.Subject, out.Type
	if out.Token, err = activation.Encode(pair); err != nil {
		return nil, fmt.Errorf("sign the token: %w", err)
	}
	return out, nil
}

// sign adds an account to what was made, once its claims are such as a server takes.
func (m *maker) sign(name string, claims *jwt.AccountClaims) error {
	claims.Name = name
	found := jwt.CreateValidationResults()
	claims.Validate(found)
	if errs := found.Errors(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	token, err := claims.Encode(m.signer)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	m.out.Accounts = append(m.out.Accounts, MadeAccount{Name: name, Key: claims.Subject, Token: token})
	return nil
}

// user makes credentials, or leaves those that are still good. signer names the key that signs it: one of the account
// with the rights of the user.
func (m *maker) user(account, name, signer string) error {
	_, public, err := m.key(account, Account)
	if err != nil {
		return err
	}
	pair, signing, err := m.key(signer, Account)
	if err != nil {
		return err
	}
	if there, ok := m.good(name, public, signing); ok {
		m.out.Users = append(m.out.Users, there)
		return nil
	}
	out := MadeUser{Name: name, Account: account, Fresh: true}
	own, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	if out.Key, err = own.PublicKey(); err != nil {
		return err
	}
	claims := jwt.NewUserClaims(out.Key)
	claims.Name, claims.IssuerAccount = name, public
	if signer == account { // the whole account, without a scope
		claims.IssuerAccount = ""
	} else {
		claims.SetScoped(true)
	}
	if m.cfg.Life > 0 {
		out.Expires = m.cfg.Now.Add(m.cfg.Life).UTC().Truncate(time.Second)
		claims.Expires = out.Expires.Unix()
	}
	token, err := claims.Encode(pair)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	seed, err := own.Seed()
	if err != nil {
		return err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return err
	}
	out.Credentials = secret.New(string(text))
	m.out.Users = append(m.out.Users, out)
	return nil
}

// good returns the credentials that a user has, where they are of this account, not revoked, and not near their end.
func (m *maker) good(name, account, signing string) (MadeUser, bool) {
	text := m.cfg.Credentials(name)
	claims, err := read(text)
	if err != nil || claims.Issuer != signing || claims.IssuerAccount != account && signing != account {
		return MadeUser{}, false
	}
	if _, revoked := m.cfg.Revoked[claims.Subject]; revoked {
		return MadeUser{}, false
	}
	out := MadeUser{Name: name, Account: nameOf(m.out.Accounts, account), Key: claims.Subject,
		Credentials: secret.New(string(text))}
	if claims.Expires == 0 {
		return out, true
	}
	out.Expires = time.Unix(claims.Expires, 0).UTC()
	// With less than half of a life left they are made anew: whoever runs this at that rhythm never sees them end.
	return out, out.Expires.Sub(m.cfg.Now) > m.cfg.Life/2
}

func nameOf(all []MadeAccount, key string) string {
	for _, a := range all {
		if a.Key == key {
			return a.Name
		}
	}
	return ""
}
