package persister

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// takeUpEvery is how often the file of the key is looked at while no row is written.
const takeUpEvery = time.Second

// signer holds the key that signs the heads of runs. It brings what its file says to the log, and signs only with the
// key that the log has in force: the log is asked after the head to be signed is known, so an old key never signs an
// event that was stored after it was replaced, whichever other persisters run.
type signer struct {
	in *service.Instance
	// path of the file of the key; empty where it is a setting, which does not change while the process runs.
	path string
	// log is that of the keys; nil for a station where none is replaced.
	log *keychain.Ledger

	mu   sync.Mutex
	text string
	file keychain.File
	// published is the key whose public half the station has; faulty what was last logged.
	published, faulty string

	// owed is true where the key was not looked at yet; follow alone uses it, once that runs.
	owed bool
}

// signer returns what signs the heads of runs; nil where there is no key.
func (k *keeping) signer(ctx context.Context) (*signer, error) {
	if k.cfg.AnchorKey.Empty() {
		k.in.Log.Warn().Msg("no INSPAN_ANCHOR_KEY is set: the cut-off end of a log cannot be found by inspan audit")
		return nil, nil
	}
	s := &signer{in: k.in, path: k.cfg.AnchorKeyFile, text: k.cfg.AnchorKey.Reveal()}
	var err error
	if s.file, err = keychain.ParseFile(s.text); err != nil {
		return nil, fmt.Errorf("INSPAN_ANCHOR_KEY: %w", err)
	}
	if p := k.in.Ports; p.KeysLog != nil {
		if s.log, err = keychain.NewLedger(keychain.LedgerConfig{Station: k.cfg.Station, By: events.Persister,
			Journal: p.KeysLog, Entropy: p.Entropy}); err != nil {
			return nil, fmt.Errorf("log of keys: %w", err)
		}
	}
	if _, err = s.key(ctx); err != nil { // the log has no leader yet; no head is signed before it has
		s.owed = true
		k.in.Log.Debug().Err(err).Msg("key of anchors not looked at, will try again")
	}
	return s, nil
}

// key returns the key that signs now, and nil where the log says that it may not.
func (s *signer) key(ctx context.Context) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(); err != nil {
		s.warn(fmt.Errorf("the key in use stays: %w", err))
	}
	if s.log != nil {
		switch ok, err := s.inForce(ctx); {
		case errors.Is(err, kernel.ErrHeld), errors.Is(err, keychain.ErrOrder), errors.Is(err, keychain.ErrSignature):
			s.warn(err)
			return nil, nil
		case err != nil:
			return nil, err
		case !ok:
			s.warn(fmt.Errorf("key %s was replaced", keychain.ID(s.file.Public())))
			return nil, nil
		}
	}
	if err := s.publish(ctx); err != nil {
		return nil, err
	}
	s.faulty = ""
	return s.file.Private, s.settle()
}

// read takes up what the file has now.
func (s *signer) read() error {
	if s.path == "" {
		return nil
	}
	b, err := disk.ReadAtMost(s.path, keychain.MaxFile)
	if err != nil {
		return fmt.Errorf("key of anchors: %w", err)
	}
	if string(b) == s.text {
		return nil
	}
	f, err := keychain.ParseFile(string(b))
	if err != nil {
		return fmt.Errorf("key of anchors %s: %w", s.path, err)
	}
	s.text, s.file = string(b), f
	return nil
}

// inForce brings the links of the file to the log, and reports whether its key is the one in force.
func (s *signer) inForce(ctx context.Context) (bool, error) {
	state, err := s.log.Fresh(ctx, events.KeysID)
	if err != nil {
		return false, err
	}
	for _, l := range s.file.Links {
		if state.Knows(l.New) {
			continue
		}
		w, err := s.log.Write(ctx, events.KeysID, func(now keychain.State, at time.Time) ([]events.Payload, error) {
			next, err := keychain.Add(s.in.Base.Station, now, s.file.Links, at)
			return next.Changes(), err
		})
		if err != nil {
			return false, err
		}
		state = w.State
		s.in.Log.Info().Str("key", keychain.ID(state.Current())).Int("number", len(state.Links)).
			Msg("key of anchors replaced")
		break
	}
	return state.Signs(s.file.Public()), nil
}

// publish lets an audit find the public half of the key. One that was published stays: old anchors were signed with it.
func (s *signer) publish(ctx context.Context) error {
	public := s.file.Public()
	if s.published == public {
		return nil
	}
	key := s.file.Private.Public().(ed25519.PublicKey) // an Ed25519 key has no other
	err := s.in.Ports.State.Create(ctx, audit.KeyPrefix+run.KeyID(key), []byte(public))
	if err != nil && !errors.Is(err, kernel.ErrExists) {
		return fmt.Errorf("publish the public key of anchors: %w", err)
	}
	s.published = public
	return nil
}

// settle takes the links out of the file that the log has: that is how others see that the rotation is in force. Where
// another process is at it, the next call does it.
func (s *signer) settle() error {
	if s.path == "" || len(s.file.Links) == 0 {
		return nil
	}
	lock, err := disk.TakeLock(keychain.LockOf(s.path))
	if err != nil {
		return nil //nolint:nilerr // the next call does it
	}
	defer func() { _ = lock.Close() }() // it ends with this process at the latest
	b, err := os.ReadFile(s.path)
	if err != nil || string(b) != s.text {
		return nil //nolint:nilerr // it was replaced again meanwhile
	}
	f := keychain.File{Private: s.file.Private}
	if err := disk.Replace(s.path, f.Format(), 0o600); err != nil {
		s.warn(fmt.Errorf("key of anchors %s: %w", s.path, err))
		return nil
	}
	s.file, s.text = f, string(f.Format())
	return nil
}

// warn logs why no head is signed, or not with the key that was asked for, once.
func (s *signer) warn(err error) {
	if err.Error() == s.faulty {
		return
	}
	s.faulty = err.Error()
	s.in.Log.Error().Err(err).Msg("heads of runs are not signed with the key of anchors: give the persister the key in force, or see docs/rotation.md")
}

// follow takes up a key that was replaced while no row is written, until ctx ends. The log is asked only where the file
// has something new.
func (s *signer) follow(ctx context.Context) {
	tick := time.NewTicker(takeUpEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.owed && !s.changed() {
			continue
		}
		_, err := s.key(ctx)
		if s.owed = err != nil; s.owed && ctx.Err() == nil {
			s.in.Log.Debug().Err(err).Msg("key of anchors not looked at, will try again")
		}
	}
}

// changed reports whether the file is not what it was, or has links that the log may not have. A file that cannot be
// read is.
func (s *signer) changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" {
		return false
	}
	b, err := disk.ReadAtMost(s.path, keychain.MaxFile)
	return err != nil || string(b) != s.text || len(s.file.Links) > 0
}
