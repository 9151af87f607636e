// Package tokens keeps who may use the gateway of a station, and for what.
//
// Promises: the list has no secret, only the SHA-256 of each. A token is 32 random bytes, so no one can try them all,
// and a hash that is slow on purpose, as passwords need one, would protect nothing more. A change of the list is whole
// or not there, and of two at the same time none is lost. Where there is no list, or one that cannot be read, no one is
// let in.
package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

const (
	// File is the list in the store of a station.
	File = "tokens.json"
	// MaxTokens bounds a list, maxBytes its file.
	MaxTokens = 1000
	maxBytes  = 1 << 20
	// Prefix begins each token, so that people and scanners for secrets know one when they see it.
	Prefix = "inspan_"
	// secretBytes are the random bytes of a token.
	secretBytes = 32
	// lockWait is how long a change waits for another one.
	lockWait = 5 * time.Second
)

// Scope is what a token may be used for.
type Scope string

// The scopes. A token may have several.
const (
	// Read reads runs, their events and artifacts, and all lists.
	Read Scope = "runs:read"
	// Write starts runs and steers them.
	Write Scope = "runs:write"
	// Answer answers gates.
	Answer Scope = "gates:answer"
)

// Scopes are all there are.
func Scopes() []Scope { return []Scope{Read, Write, Answer} }

// ScopesOf are names as scopes.
func ScopesOf(names []string) []Scope {
	all := make([]Scope, len(names))
	for i, n := range names {
		all[i] = Scope(n)
	}
	return all
}

var (
	// ErrThere means that a list has a token of that name.
	ErrThere = errors.New("the list has that token")
	// ErrUnknown means that it has no such token.
	ErrUnknown = errors.New("the list has no such token")
)

// Token that lets a program use the gateway.
type Token struct {
	// Name is what runs and answers to gates record of whoever has the token.
	Name string `json:"name"`
	// Digest is the SHA-256 of the token, in hex.
	Digest string    `json:"sha256"`
	Scopes []Scope   `json:"scopes"`
	Added  time.Time `json:"added"`
	// Expires is when it ends; zero for never.
	Expires time.Time `json:"expires,omitzero"`
}

// Has reports whether a token has a scope; every token has the empty one.
func (t Token) Has(s Scope) bool { return s == "" || slices.Contains(t.Scopes, s) }

// Check returns what is wrong with a token.
func (t Token) Check() error {
	if err := events.CheckID("name of the token", t.Name); err != nil {
		return err
	}
	if b, err := hex.DecodeString(t.Digest); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("token %s: its digest is no SHA-256 in hex", t.Name)
	}
	if len(t.Scopes) == 0 {
		return fmt.Errorf("token %s: may do nothing: name some of %v", t.Name, Scopes())
	}
	for i, s := range t.Scopes {
		if !slices.Contains(Scopes(), s) || slices.Contains(t.Scopes[:i], s) {
			return fmt.Errorf("token %s: scope %q: each of %v once at most", t.Name, s, Scopes())
		}
	}
	return nil
}

// List of tokens.
type List struct {
	Tokens []Token `json:"tokens"`
}

func (l List) check() error {
	if len(l.Tokens) > MaxTokens {
		return fmt.Errorf("%d tokens, the limit is %d", len(l.Tokens), MaxTokens)
	}
	for i, t := range l.Tokens {
		if err := t.Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(l.Tokens[:i], func(o Token) bool { return o.Name == t.Name || o.Digest == t.Digest }) {
			return fmt.Errorf("token %s: %w", t.Name, ErrThere)
		}
	}
	return nil
}

// With is the list with one more token.
func (l List) With(t Token) (List, error) {
	return List{Tokens: append(slices.Clone(l.Tokens), t)}, nil
}

// Without is the list without a token.
func (l List) Without(name string) (List, error) {
	i := slices.IndexFunc(l.Tokens, func(t Token) bool { return t.Name == name })
	if i < 0 {
		return l, fmt.Errorf("token %s: %w", name, ErrUnknown)
	}
	return List{Tokens: slices.Delete(slices.Clone(l.Tokens), i, i+1)}, nil
}

// Find returns the token that a secret is, if the list has it and it has not expired. It takes as long for a secret
// that is nearly right as for any other.
func (l List) Find(secret string, now time.Time) (Token, bool) {
	digest, found := []byte(DigestOf(secret)), -1
	for i, t := range l.Tokens {
		if subtle.ConstantTimeCompare(digest, []byte(t.Digest)) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Token{}, false
	}
	t := l.Tokens[found]
	return t, t.Expires.IsZero() || now.Before(t.Expires)
}

// New makes a token and its digest. The token is kept nowhere.
func New() (secret, digest string) {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // it ends the process rather than to fail
	secret = Prefix + base64.RawURLEncoding.EncodeToString(b)
	return secret, DigestOf(secret)
}

// DigestOf is the SHA-256 of a token, in hex.
func DigestOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Load reads a list. There may be none; what is no list is an error.
func Load(path string) (List, error) {
	b, err := disk.ReadAtMost(path, maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return List{}, nil
	}
	var l List
	if err == nil {
		err = ce.Strict(b, &l)
	}
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return List{}, fmt.Errorf("list of tokens %s: %w", path, err)
	}
	return l, nil
}

// Change changes a list, and returns what it is then. It waits for a change of another process.
func Change(path string, to func(List) (List, error)) (List, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return List{}, fmt.Errorf("folder of the list of tokens: %w", err)
	}
	lock, err := disk.WaitLock(strings.TrimSuffix(path, filepath.Ext(path))+".lock", lockWait)
	if err != nil {
		return List{}, fmt.Errorf("lock of the list of tokens: %w", err)
	}
	defer func() { _ = lock.Close() }() // it ends with this process at the latest
	l, err := Load(path)
	if err != nil {
		return l, err
	}
	if l, err = to(l); err != nil {
		return l, err
	}
	if err := l.check(); err != nil {
		return l, err
	}
	l.Tokens = append([]Token{}, l.Tokens...) // never null
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return l, fmt.Errorf("list of tokens: %w", err)
	}
	return l, disk.Replace(path, append(b, '\n'), 0o600)
}

// Follower gives the list as it is at the moment. It is safe for concurrent use.
type Follower struct {
	path string

	mu sync.Mutex
	// Guarded by mu: what was read, of which file.
	list List
	err  error
	of   fs.FileInfo
}

// Follow follows the list at a path.
func Follow(path string) *Follower { return &Follower{path: path} }

// Now is the list as it is. The file is read again only where it is another one than before, or was written to.
func (f *Follower) Now() (List, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return List{}, nil
	}
	if err != nil {
		return List{}, fmt.Errorf("list of tokens: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil || !os.SameFile(f.of, info) || f.of.Size() != info.Size() || !f.of.ModTime().Equal(info.ModTime()) {
		f.list, f.err = Load(f.path)
		f.of = info
	}
	return f.list, f.err
}

// LetIn says whom the gateway lets in: the people of an identity provider, where there is one, and tokens. err is why
// the list could not be read.
func LetIn(list List, err error, people string) string {
	var who []string
	if people != "" {
		who = append(who, "people of "+people)
	}
	if len(list.Tokens) > 0 {
		names := make([]string, len(list.Tokens))
		for i, t := range list.Tokens {
			names[i] = t.Name
		}
		who = append(who, "tokens: "+strings.Join(names, ", "))
	}
	switch {
	case err != nil && people == "":
		return "no one is let in: the list of tokens cannot be read"
	case err != nil:
		who = append(who, "the list of tokens cannot be read")
	case len(who) == 0:
		return "no one is let in until there is a token: inspan token add NAME"
	}
	return strings.Join(who, "; ")
}
