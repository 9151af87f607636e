package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Servers asks the NATS servers about themselves.
type Servers struct{ c *Conn }

// Servers returns what asks the servers.
func (c *Conn) Servers() Servers { return Servers{c} }

// Durability is what the servers do before they acknowledge.
type Durability struct {
	// Known is false where no server told; then SyncAlways is false too, because no one may rely on it.
	Known bool
	// SyncAlways is true where every server that was asked writes to disk before it acknowledges.
	SyncAlways bool
	// Interval is the longest that a server leaves acknowledged messages unwritten, 0 with SyncAlways.
	Interval time.Duration
	// ServerVersion is that of the server connected to.
	ServerVersion string
	// Servers are those that told.
	Servers []ServerDurability
	// Source says who told: "embedded", "monitor", "system account" or "nobody".
	Source string
}

// ServerDurability is that of one server.
type ServerDurability struct {
	Name, Version string
	SyncAlways    bool
	Interval      time.Duration
}

// Durability finds out whether acknowledged messages survive a power cut. A NATS server does not tell its ordinary
// clients, so these are asked in turn: the server in this process, the monitoring ports of the configuration, the
// system account where this connection is in it. Where no one tells, the answer is "unknown", which counts as lazy,
// and no error. With monitoring ports configured, a port that does not answer is an error.
func (s Servers) Durability(ctx context.Context) (Durability, error) {
	d := Durability{ServerVersion: s.c.nc.ConnectedServerVersion(), Source: "nobody"}
	if s, ok := s.c.cfg.InProcess.(Embedded); ok {
		one := s.Durability()
		return d.judge("embedded", []ServerDurability{one}), nil
	}
	if len(s.c.cfg.Monitors) > 0 {
		var all []ServerDurability
		for _, base := range s.c.cfg.Monitors {
			one, err := monitored(ctx, base)
			if err != nil {
				return d, fmt.Errorf("read the durability from %s: %w", redactURL(base), err)
			}
			all = append(all, one)
		}
		return d.judge("monitor", all), nil
	}
	all, err := s.askSystem(ctx)
	if err != nil {
		return d, fmt.Errorf("ask the servers for their durability: %w", err)
	}
	return d.judge("system account", all), nil
}

func (d Durability) judge(source string, all []ServerDurability) Durability {
	if len(all) == 0 {
		return d
	}
	d.Known, d.SyncAlways, d.Source = true, true, source
	for _, s := range all {
		d.SyncAlways = d.SyncAlways && s.SyncAlways
		d.Interval = max(d.Interval, s.Interval)
	}
	d.Servers = slices.SortedFunc(slices.Values(all), func(a, b ServerDurability) int {
		return strings.Compare(a.Name,
			b.Name)
	})
	return d
}

// jetStreamPage is the part of a server's monitoring answer that says how it writes.
type jetStreamPage struct {
	Disabled bool `json:"disabled"`
	Config   *struct {
		SyncAlways   bool          `json:"sync_always"`
		SyncInterval time.Duration `json:"sync_interval"`
	} `json:"config"`
}

func (p jetStreamPage) durability(name, version string) (ServerDurability, error) {
	if p.Config == nil || p.Disabled {
		return ServerDurability{}, errors.New("the server shows no JetStream configuration")
	}
	s := ServerDurability{Name: name, Version: version, SyncAlways: p.Config.SyncAlways}
	if !s.SyncAlways {
		s.Interval = p.Config.SyncInterval
	}
	return s, nil
}

// maxPage bounds a monitoring page, in bytes.
const maxPage = 4 << 20

// monitored reads the monitoring pages of one server.
func monitored(ctx context.Context, base string) (ServerDurability, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/varz", nil)
	if err != nil {
		return ServerDurability{}, errors.New("not a URL such as http://host:8222")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ServerDurability{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return ServerDurability{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return ServerDurability{}, fmt.Errorf("status %s", resp.Status)
	}
	var page struct {
		Name      string        `json:"server_name"`
		Version   string        `json:"version"`
		JetStream jetStreamPage `json:"jetstream"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return ServerDurability{}, fmt.Errorf("varz: %w", err)
	}
	return page.JetStream.durability(page.Name, page.Version)
}

// Times of a question to all servers.
const (
	systemWait  = 2 * time.Second
	systemQuiet = 300 * time.Millisecond
)

// askSystem asks all servers through the system account. A connection in another account is answered by no one, or is
// not permitted to ask: then no one tells, which is no error.
func (s Servers) askSystem(ctx context.Context) ([]ServerDurability, error) {
	const subject = "$SYS.REQ.SERVER.PING.JSZ"
	ctx, cancel := context.WithTimeout(ctx, systemWait)
	defer cancel()
	watched, done := s.c.denied.watch(ctx, subject)
	defer done()
	inbox := s.c.nc.NewInbox()
	sub, err := s.c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	if err := s.c.nc.PublishRequest(subject, inbox, []byte(`{"config":true}`)); err != nil {
		return nil, err
	}
	var all []ServerDurability
	wait := systemWait
	for {
		turn, end := context.WithTimeout(watched, wait)
		m, err := sub.NextMsgWithContext(turn)
		end()
		if err != nil || m.Header.Get("Status") == "503" {
			if errors.Is(err, nats.ErrConnectionClosed) {
				return nil, err
			}
			return all, nil
		}
		var answer struct {
			Server struct {
				Name    string `json:"name"`
				Version string `json:"ver"`
			} `json:"server"`
			Data jetStreamPage `json:"data"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return nil, fmt.Errorf("answer of a server: %w", err)
		}
		if answer.Data.Disabled {
			continue
		}
		one, err := answer.Data.durability(answer.Server.Name, answer.Server.Version)
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", answer.Server.Name, err)
		}
		all, wait = append(all, one), systemQuiet
	}
}
