// Package operator is what the programs of this module do with a station besides what pkg/client offers to everyone:
// audits, losses of the store, bundles of runs, and clients of stations in their own process.
package operator

import (
	"context"
	"errors"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// On is a client on a connection that somebody else closes.
func On(conn *jet.Conn, station string) (*client.Client, error) {
	st, err := conn.Station(station)
	if err != nil {
		return nil, err
	}
	return client.Over(st, conn, nil), nil
}

// Over is a client on a connection that is closed with it.
func Over(conn *jet.Conn, station string) (*client.Client, error) {
	st, err := conn.Station(station)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return client.Over(st, conn, conn.Close), nil
}

// store is what an operator needs of a station.
type store interface {
	Name() string
	Journal() kernel.Journal
	JournalFor(aggregate string) kernel.Journal
	Blobs() kernel.Blobs
	Artifacts() kernel.Artifacts
	KV(bucket string) kernel.KV
	Log(ctx context.Context) (jet.LogState, error)
	Logged(ctx context.Context) (runs []string, err error)
}

// station is a client with the station behind it.
type station struct {
	*client.Client
	st store
}

// errForeign means that a client was not made over a station of this module.
var errForeign = errors.New("this client has no station of this program behind it")

func of(c *client.Client) (station, error) {
	st, ok := c.Inside().(store)
	if !ok {
		return station{}, errForeign
	}
	return station{c, st}, nil
}

// checkRun returns an *events.IDError for a run that cannot exist.
func checkRun(runID string) error { return events.CheckID("run", runID) }

// runPrefix begins the keys of the rows of runs in the index.
const runPrefix = "run."
