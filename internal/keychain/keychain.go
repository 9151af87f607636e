// Package keychain is the aggregate of the keys that sign the anchors of runs: which replaced which, and up to where in
// the log an anchor of an old one is accepted.
//
// Promises: each link was signed by the key that it brings, and one that rotates a key by the old one, too, so that
// whoever trusts one key of a chain can tell which others to trust. A key that was replaced never comes back. Decisions
// and the fold are functions of a state and an input. A file of a key has the private key in force and the links that
// the log may not have yet: replacing that file is the whole of a rotation, and what follows may be done twice.
package keychain

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MaxLinks bounds the links of one station: a key that is replaced each week lasts for eighty years.
const MaxLinks = 4096

var (
	// ErrSignature means that a link was not signed as its reason asks for.
	ErrSignature = errors.New("the signature of a replaced key is wrong")
	// ErrOrder means that a link does not follow from those before it.
	ErrOrder = errors.New("the key does not follow")
)

// Link is a link of the chain, where it stands in the log of the station.
type Link struct {
	events.KeyLink
	// Seq is the position of its event, 0 where that is not known.
	Seq uint64 `json:"seq,omitempty"`
}

// Chain are the links of a station, as programs hand them on.
type Chain struct {
	Station string `json:"station"`
	Links   []Link `json:"links"`
}

// Until is the last position at which an anchor of the old key is accepted.
func (l Link) Until() uint64 {
	if l.NotAfter > 0 {
		return min(l.NotAfter, l.Seq)
	}
	return l.Seq
}

// State of the keys of a station: the fold of their log. It is a value.
type State struct {
	Links []events.KeyLink
	log   *events.LogHead
	kernel.Folded
}

// Current is the key in force; "" where none was ever replaced.
func (s State) Current() string {
	if len(s.Links) == 0 {
		return ""
	}
	return s.Links[len(s.Links)-1].New
}

// Signs reports whether a public key may sign: the one in force, or any where none was ever replaced.
func (s State) Signs(public string) bool { return len(s.Links) == 0 || s.Current() == public }

// Knows reports whether a key was brought by a link of the chain.
func (s State) Knows(public string) bool {
	return slices.ContainsFunc(s.Links, func(l events.KeyLink) bool { return l.New == public })
}

// replaced reports whether a key was in force and is not any more.
func (s State) replaced(public string) bool {
	return slices.ContainsFunc(s.Links, func(l events.KeyLink) bool { return l.Old == public })
}

// follows returns why a link may not come next, wrapped in ErrOrder.
func (s State) follows(l events.KeyLink) error {
	now := s.Current()
	switch {
	case len(s.Links) >= MaxLinks:
		return fmt.Errorf("%w: the station has %d replaced keys, the limit", ErrOrder, MaxLinks)
	case s.Knows(l.New) || s.replaced(l.New):
		return fmt.Errorf("%w: key %s was in force before", ErrOrder, ID(l.New))
	case now != "" && l.Old != "" && l.Old != now:
		return fmt.Errorf("%w: it replaces key %s, and key %s is in force", ErrOrder, ID(l.Old), ID(now))
	}
	return nil
}

// Add brings the links that a chain does not have yet, in order. Links that it has change nothing.
func Add(station string, s State, links []events.KeyLink, now time.Time) (State, error) {
	for _, l := range links {
		if s.Knows(l.New) {
			continue
		}
		if err := errors.Join(Check(station, l), s.follows(l)); err != nil {
			return s, err
		}
		if l.Old == "" {
			l.Old = s.Current()
		}
		s = definition.Then(s, &events.KeyRotatedData{Event: "key_rotated", Number: len(s.Links) + 1, KeyLink: l}, now)
	}
	return s, nil
}

var rules = kernel.Rules[State]{kernel.On(rotated)}

func rotated(s State, d *events.KeyRotatedData, _ time.Time) (State, error) {
	if d.Number != len(s.Links)+1 {
		return s, fmt.Errorf("key %d comes after key %d", d.Number, len(s.Links))
	}
	if err := s.follows(d.KeyLink); err != nil {
		return s, err
	}
	s.Links = append(slices.Clone(s.Links), d.KeyLink)
	return s, nil
}

var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "keys", Prefix: events.KeysAggregate + ".",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Links, &s.log, &s.Folded
		}},
	Token:  events.KeysAggregate,
	Lookup: events.LookupKeys,
	ID:     func(_ *State) string { return events.KeysID },
	Next:   rules.Fold,
}

// Types of the kernel for keys.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of keys.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of keys.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// ID names a public key as anchors do; a text that is none names itself.
func ID(public string) string {
	key, err := audit.ParsePublic(public)
	if err != nil {
		return fmt.Sprintf("%.16s", public)
	}
	return run.KeyID(key)
}

// text is what the keys of a link sign. No part of it can hold a line break.
func text(station string, l events.KeyLink) []byte {
	return []byte(strings.Join([]string{"inspan key of anchors 1", station, l.Reason, l.Old, l.New,
		fmt.Sprint(l.NotAfter), l.At}, "\n"))
}

// Replace makes the link by which one key replaces another. Of old only the public half is used where it leaked; it is
// nil where it is lost.
func Replace(station, reason string, old, next ed25519.PrivateKey, notAfter uint64, at time.Time) events.KeyLink {
	l := events.KeyLink{Reason: reason, New: audit.FormatPublic(next), NotAfter: notAfter,
		At: at.UTC().Format(time.RFC3339)}
	if old != nil {
		l.Old = audit.FormatPublic(old)
	}
	if reason == events.KeyWasRotated {
		l.OldSignature = base64.StdEncoding.EncodeToString(ed25519.Sign(old, text(station, l)))
	}
	l.NewSignature = base64.StdEncoding.EncodeToString(ed25519.Sign(next, text(station, l)))
	return l
}

// Check returns why a link is none that the keys of a station made.
func Check(station string, l events.KeyLink) error {
	switch {
	case l.Reason != events.KeyWasRotated && l.Reason != events.KeyHasLeaked && l.Reason != events.KeyIsLost:
		return fmt.Errorf("%w: unknown reason %.40q", ErrOrder, l.Reason)
	case l.NotAfter > 0 && l.Reason != events.KeyHasLeaked:
		return fmt.Errorf("%w: an end is given for a key that did not leak", ErrOrder)
	case l.Old == "" && l.Reason != events.KeyIsLost, l.Old == l.New:
		return fmt.Errorf("%w: key %s replaces %q", ErrOrder, ID(l.New), l.Old)
	}
	if !signedBy(l.New, station, l, l.NewSignature) {
		return fmt.Errorf("%w: that of the new key %s", ErrSignature, ID(l.New))
	}
	if l.Reason == events.KeyWasRotated && !signedBy(l.Old, station, l, l.OldSignature) {
		return fmt.Errorf("%w: that of the old key %s", ErrSignature, ID(l.Old))
	}
	return nil
}

func signedBy(public, station string, l events.KeyLink, signature string) bool {
	key, err := audit.ParsePublic(public)
	sig, bad := base64.StdEncoding.DecodeString(signature)
	if errors.Join(err, bad) != nil {
		return false
	}
	if l.Reason == events.KeyIsLost && l.Old != "" {
		// The fold of the log says which key it was; whoever lost it need not know.
		unknown := l
		unknown.Old = ""
		if ed25519.Verify(key, text(station, unknown), sig) {
			return true
		}
	}
	return ed25519.Verify(key, text(station, l), sig)
}

// Trusted are the keys whose anchors an audit accepts, and the last position at which it does for those that were
// replaced, by their run.KeyID.
type Trusted struct {
	Keys []ed25519.PublicKey
	Ends map[string]uint64
}

// Trust returns what follows from a chain for somebody who trusts some keys: those that they certified, one by one, and
// those that certified them. Where no key is given, all of the chain and the published ones are trusted. A link that
// no one signed as it says is an error.
func Trust(station string, given, published []ed25519.PublicKey, chain []Link) (Trusted, error) {
	t := Trusted{Keys: slices.Clone(given), Ends: map[string]uint64{}}
	for _, l := range chain {
		if err := Check(station, l.KeyLink); err != nil {
			return t, fmt.Errorf("key of anchors at position %d: %w", l.Seq, err)
		}
		if l.Old != "" {
			t.Ends[ID(l.Old)] = l.Until()
		}
	}
	if len(given) == 0 {
		for _, key := range published {
			t.add(hex.EncodeToString(key))
		}
		for _, l := range chain {
			t.add(l.Old)
			t.add(l.New)
		}
		return t, nil
	}
	for _, l := range chain { // a link follows those before it, so one pass each way finds all
		if l.Reason == events.KeyWasRotated && t.has(l.Old) {
			t.add(l.New)
		}
	}
	for _, l := range slices.Backward(chain) {
		if l.Reason != events.KeyIsLost && t.has(l.New) { // no one signed which key was lost
			t.add(l.Old)
		}
	}
	return t, nil
}

func (t *Trusted) has(public string) bool {
	return slices.ContainsFunc(t.Keys, func(k ed25519.PublicKey) bool { return hex.EncodeToString(k) == public })
}

func (t *Trusted) add(public string) {
	if key, err := audit.ParsePublic(public); err == nil && !t.has(public) {
		t.Keys = append(t.Keys, key)
	}
}
