package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
)

// scraped are the metrics of inspan up, for whoever reaches their address. It answers before the station has started,
// so that a port that is in use is reported at once.
type scraped struct {
	metrics *service.Metrics
	address string
	station atomic.Pointer[station.Station]
	stop    context.CancelFunc
	ended   <-chan struct{}
}

// serveMetrics answers /healthz, /readyz and /metrics at an address; nil where that is empty.
func serveMetrics(ctx context.Context, address string) (*scraped, error) {
	if address == "" {
		return nil, nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, app.Usage("--metrics %q: want host:port, for example 127.0.0.1:9464", address)
	}
	s := &scraped{metrics: service.NewMetrics()}
	s.metrics.Damage(s.lost)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	s.address, s.ended, err = service.Serve(ctx, address, s.metrics, s.ready)
	if err != nil {
		s.stop()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s of --metrics is in use: name another port, 0 is any that is free", address)
	}
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w", address, err)
	}
	return s, nil
}

// lost says what the station has lost of its store; nil for nothing.
func (s *scraped) lost() error {
	st := s.station.Load()
	if st == nil {
		return nil
	}
	if lost := st.Damage(); lost.Damaged() {
		return errors.New(lost.Error())
	}
	return nil
}

// ready says why the station takes no work; nil where it does.
func (s *scraped) ready() error {
	if s.station.Load() == nil {
		return errors.New("starting")
	}
	return s.lost()
}

// of gives what the station reports to; nil for nothing.
func (s *scraped) of() *service.Metrics {
	if s == nil {
		return nil
	}
	return s.metrics
}

// closed are the addresses that commands of sandboxes must not reach.
func (s *scraped) closed() []string {
	if s == nil {
		return nil
	}
	return []string{s.address}
}

// started says that the station has started.
func (s *scraped) started(st *station.Station) {
	if s != nil {
		s.station.Store(st)
	}
}

// close stops answering and waits for the end.
func (s *scraped) close() {
	if s != nil {
		s.stop()
		<-s.ended
	}
}
