package natsserver

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/storecheck"
)

var _ jet.Embedded = (*Server)(nil)

// Durability implements jet.Embedded.
func (s *Server) Durability() jet.ServerDurability {
	one := jet.ServerDurability{Name: now(s).Name(), SyncAlways: !s.cfg.LazySync}
	if cfg := now(s).JetStreamConfig(); cfg != nil {
		one.SyncAlways = cfg.SyncAlways
		if !cfg.SyncAlways {
			one.Interval = cfg.SyncInterval
		}
	}
	if v, err := now(s).Varz(nil); err == nil {
		one.Version = v.Version
	}
	return one
}

// diskReserve is what stays free on the disk of a server in this process, in bytes: a server whose disk is full has to
// be started again.
const diskReserve = 64 << 20

// FreeBytes is how much may still be written below a folder; ok is false where that is not known.
func FreeBytes(dir string) (free int64, ok bool) { return freeBytes(dir) }

// Fills implements jet.Embedded: the server's own limit, and what its disk has room for.
func (s *Server) Fills() []kernel.Fill {
	var fills []kernel.Fill
	j, err := now(s).Jsz(&server.JSzOptions{Config: true})
	if err != nil {
		return nil // it has ended; whoever writes gets that error
	}
	if j.Config.MaxStore > 0 {
		fills = append(fills, kernel.Fill{Store: "the server's storage", Used: int64(j.Store), Limit: j.Config.MaxStore})
	}
	if free, ok := freeBytes(s.cfg.StoreDir); ok {
		fills = append(fills, kernel.Fill{Store: "the disk of " + s.cfg.StoreDir, Used: int64(j.Store),
			Limit: max(int64(j.Store)+free, 1), Reserve: diskReserve})
	}
	return fills
}

// ErrDown means that the server in this process was shut down, or is not up yet.
var ErrDown = errors.New("the server does not accept connections")

// Marks are how far the streams of the server in this process have come, and what their consumers have acknowledged. A
// server that syncs before it acknowledges has all of it on disk. ErrDown means that the server does not serve at the
// moment.
func (s *Server) Marks() (map[string]storecheck.Stream, error) {
	if !s.up() {
		return nil, ErrDown
	}
	const page = 1024 // accounts at once; a station has two
	info, err := now(s).Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true, Config: true, Limit: page})
	if err != nil {
		return nil, fmt.Errorf("list the streams of the server: %w", err)
	}
	all := map[string]storecheck.Stream{}
	for _, account := range info.AccountDetails {
		for _, st := range account.Streams {
			m := storecheck.Stream{Created: st.Created, First: st.State.FirstSeq, Last: st.State.LastSeq,
				Messages: st.State.Msgs,
				Deleted:  uint64(max(0, st.State.NumDeleted)), Floors: map[string]uint64{}}
			for _, co := range st.Consumer {
				m.Floors[co.Name] = co.AckFloor.Stream
			}
			all[storecheck.Key(account.Name, st.Name)] = m
		}
	}
	if !s.up() {
		return nil, ErrDown // it may have let go of some streams already
	}
	return all, nil
}
