// Package approval signs answers to gates, and verifies them without a station.
//
// Promises: a signature covers the station, the run, the gate, the decision, the hash of the exact action and the
// reason, so it is good for that one answer and no other. Keys are Ed25519 in standard PEM files, and not those of
// NATS. Who signed is told by the key alone: it is the name under which the verifier keeps it.
package approval

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Errors of a verification.
var (
	// ErrUnsigned means that there is no signature.
	ErrUnsigned = errors.New("the answer is not signed")
	// ErrUnknownKey means that the verifier does not have the key that is said to have signed.
	ErrUnknownKey = errors.New("the signing key is unknown")
	// ErrBadSignature means that the key did not sign this answer.
	ErrBadSignature = errors.New("the signature does not match this answer")
)

// Statement is what is signed.
type Statement struct {
	Station, Run, Gate string
	// Decision is "approve", "reject" or "revoke", ProposalHash the hash of the exact action that is decided on: the
	// proposal_hash of the gate, or where its arguments were edited events.EditedHash of that and of them.
	Decision, ProposalHash string
	Reason                 string
	// Always, Pattern and Term are what the answer grants for later calls: its scope, the pattern where the answer names
	// one, and how long, 0 where the answer does not say. Without Always the others are empty.
	Always  events.GrantScope
	Pattern string
	Term    time.Duration
}

// bytes are what the signature is over. Ids hold no line break and the reason comes last, as its hash, so two
// statements never have the same bytes.
func (s Statement) bytes() ([]byte, error) {
	for _, id := range []struct{ what, id string }{{"station", s.Station}, {"run", s.Run}, {"gate", s.Gate},
		{"proposal_hash", s.ProposalHash}} {
		if err := events.CheckID(id.what, id.id); err != nil {
			return nil, err
		}
	}
	if s.Decision != Approve && s.Decision != Reject && s.Decision != Revoke {
		return nil, fmt.Errorf("decision %q: only approve, reject and revoke can be signed", s.Decision)
	}
	if len(s.Reason) > MaxReason {
		return nil, fmt.Errorf("reason of %d bytes: at most %d can be signed", len(s.Reason), MaxReason)
	}
	reason := sha256.Sum256([]byte(s.Reason))
	form, lines := "inspan approval 1", []string{s.Station, s.Run, s.Gate, s.Decision, s.ProposalHash,
		hex.EncodeToString(reason[:])}
	if s.Always != "" {
		pattern := sha256.Sum256([]byte(s.Pattern))
		form, lines = "inspan approval 2", append(lines, string(s.Always), hex.EncodeToString(pattern[:]),
			strconv.FormatInt(s.Term.Milliseconds(), 10))
	}
	return []byte(strings.Join(append([]string{form}, lines...), "\n")), nil
}

// MaxReason is the longest reason that is recorded, in bytes.
const MaxReason = events.MaxReason

// The decisions that can be signed.
const (
	Approve = "approve"
	Reject  = "reject"
	Revoke  = "revoke"
)

// Key signs.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key.
func NewKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return Key{private}, err
}

// ID names the key: the first 16 characters of the SHA-256 of its public half, in hex.
func (k Key) ID() string { return keyID(k.private.Public().(ed25519.PublicKey)) }

// String gives the id, so that a key cannot be printed by mistake.
func (k Key) String() string { return "key " + k.ID() }

// GoString is String.
func (k Key) GoString() string { return k.String() }

func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Sign returns the signature of a statement, in base64.
func (k Key) Sign(s Statement) (string, error) {
	b, err := s.bytes()
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, b)), nil
}

// Keys are public keys by id. The zero value knows none.
type Keys struct{ byID map[string]named }

type named struct {
	name   string
	public ed25519.PublicKey
}

// Len is the number of keys.
func (k Keys) Len() int { return len(k.byID) }

// Verify returns the name of who signed a statement. Its errors wrap ErrUnsigned, ErrUnknownKey and ErrBadSignature.
func (k Keys) Verify(s Statement, keyID, signature string) (name string, err error) {
	if signature == "" {
		return "", ErrUnsigned
	}
	key, ok := k.byID[keyID]
	if !ok {
		return "", fmt.Errorf("%w: %.32q", ErrUnknownKey, keyID)
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return "", fmt.Errorf("%w: it is not 64 bytes in base64", ErrBadSignature)
	}
	b, err := s.bytes()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadSignature, err)
	}
	if !ed25519.Verify(key.public, b, raw) {
		return "", fmt.Errorf("%w: key %s of %s did not sign it", ErrBadSignature, keyID, key.name)
	}
	return key.name, nil
}

// VerifyEvent returns who signed the answer that a gate.approved, gate.voted, gate.rejected or grant.revoked records,
// from the event alone. Its errors are those of Verify; an event that records no answer is ErrUnsigned. Beyond the
// signature it wants what the station recorded as the answer's author to be the owner of the key.
func (k Keys) VerifyEvent(f events.Event) (name string, err error) {
	p, err := f.Payload()
	if err != nil {
		return "", err
	}
	var a events.GateAnswer
	decision := Approve
	switch d := p.(type) {
	case *events.GateApprovedData:
		a = d.GateAnswer
	case *events.GateVotedData:
		a = d.GateAnswer
	case *events.GateRejectedData:
		a, decision = d.GateAnswer, Reject
	case *events.GrantRevokedData:
		a, decision = events.GateAnswer{Gate: d.Grant, By: d.By, Assurance: d.Assurance, Reason: d.Reason,
			ProposalHash: d.ProposalHash, Key: d.Key, Signature: d.Signature}, Revoke
	default:
		return "", fmt.Errorf("%w: the event records no answer", ErrUnsigned)
	}
	st := Statement{Station: f.Station, Run: f.Run, Gate: a.Gate, Decision: decision, ProposalHash: a.Approved(),
		Reason: a.Reason}
	if g := a.Grant; g != nil {
		st.Always, st.Term = g.Scope, time.Duration(g.TermMS)*time.Millisecond
		if g.Action == "" { // the answer named the pattern
			st.Pattern = g.Pattern
		}
	}
	name, err = k.Verify(st, a.Key, a.Signature)
	if err == nil && (a.By != name || a.Assurance != events.AssuranceSignature) {
		return "", fmt.Errorf("%w: %s signed, the event records %s by %s", ErrBadSignature, name, a.By, a.Assurance)
	}
	return name, err
}

// Kinds of PEM blocks.
const (
	pemPrivate = "PRIVATE KEY"
	pemPublic  = "PUBLIC KEY"
	// maxFile bounds a key file, in bytes.
	maxFile = 16 << 10
	// PublicExt is the end of the name of a public key's file.
	PublicExt = ".pub"
)

// Save writes a key to a file that only its owner may read, and its public half beside it, with ".pub" behind the name.
// Neither may exist.
func (k Key) Save(path string) error {
	private, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	if err := write(path, pemPrivate, private, 0o600); err != nil {
		return err
	}
	return write(path+PublicExt, pemPublic, public, 0o644)
}

func write(path, kind string, der []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	err = pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write key %s: %w", path, err)
	}
	return nil
}

// LoadKey reads a key that Save, or openssl genpkey -algorithm ed25519, wrote.
func LoadKey(path string) (Key, error) {
	der, err := read(path, pemPrivate)
	if err != nil {
		return Key{}, err
	}
	any, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return Key{}, fmt.Errorf("key %s: not a private key in PKCS #8", path) // the parser's words may quote it
	}
	private, ok := any.(ed25519.PrivateKey)
	if !ok {
		return Key{}, fmt.Errorf("key %s: not an Ed25519 key; inspan keygen makes one", path)
	}
	return Key{private}, nil
}

// LoadKeys reads the public keys of a folder: NAME.pub is that of NAME. Other files are left alone. A folder without a
// key, and one key under two names, are errors.
func LoadKeys(dir string) (Keys, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+PublicExt))
	if err != nil {
		return Keys{}, fmt.Errorf("approver keys: %w", err)
	}
	if len(paths) == 0 {
		return Keys{}, fmt.Errorf("approver keys: no file NAME%s in %s", PublicExt, dir)
	}
	keys := Keys{byID: map[string]named{}}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), PublicExt)
		if err := events.CheckID("approver", name); err != nil {
			return Keys{}, fmt.Errorf("approver keys: %w", err)
		}
		der, err := read(path, pemPublic)
		if err != nil {
			return Keys{}, err
		}
		any, err := x509.ParsePKIXPublicKey(der)
		public, ok := any.(ed25519.PublicKey)
		if err != nil || !ok {
			return Keys{}, fmt.Errorf("key %s: not a public Ed25519 key; inspan keygen makes one", path)
		}
		id := keyID(public)
		if other, ok := keys.byID[id]; ok {
			return Keys{}, fmt.Errorf("approver keys: %s and %s have the same key", other.name, name)
		}
		keys.byID[id] = named{name, public}
	}
	return keys, nil
}

func read(path, kind string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("key %s: larger than %d bytes", path, maxFile)
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("key %s: not a PEM file with a %s", path, kind)
	}
	return block.Bytes, nil
}
