package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/topology"
)

// Inspection is what a server and the credentials of a connection are, as far as the server says it.
type Inspection struct {
	// Version, Cluster and MaxPayload are what the server says of itself. Cluster is "" for one that stands alone.
	Version, Cluster string
	MaxPayload       int64
	Headers          bool
	// Protected says that the server asks who its clients are.
	Protected bool
	// Skew is how far the clock of the server is ahead of this one; ClockKnown says that it is known, to within Round.
	Skew, Round time.Duration
	ClockKnown  bool
	// User and Account are as the server names them; Rights is nil where it says nothing of them.
	User, Account string
	Rights        *Rights
	// Expires is when the credentials end, 0 for no end or where that is not known.
	Expires time.Duration
	// Separation is "" where NoJetStream says why it is not known.
	Separation  Separation
	NoJetStream error
	// Limits is nil where this user may not ask for them.
	Limits *AccountLimits
	// SetUp says that the station has a log, Replicas how many copies of it there are.
	SetUp    bool
	Replicas int
}

// Rights of a user. Nothing in a side allows everything in it.
type Rights struct {
	Publish, Subscribe Side
}

// Side is one direction of rights.
type Side struct {
	Allow []string `json:"allow"`
	Deny  []string `json:"deny"`
}

// AccountLimits are those of JetStream for an account, -1 for none, and what is used of them.
type AccountLimits struct {
	Store, StreamBytes         int64
	Streams, Consumers         int
	MaxPending                 int
	BytesRequired              bool
	UsedStore                  int64
	UsedStreams, UsedConsumers int
	// Tier is the number of replicas that the limits are for, "" where there is one set for all.
	Tier string
}

// Has reports whether the rights cover a subject or a pattern.
func (s Side) Has(subject string) bool {
	has := len(s.Allow) == 0
	for _, a := range s.Allow {
		has = has || topology.Covers(a, subject)
	}
	for _, d := range s.Deny {
		has = has && !topology.Covers(d, subject) && !topology.Covers(subject, d)
	}
	return has
}

// Inspect asks the server that a station is reached by. It changes nothing. What a user may not ask is left out.
func (s *Station) Inspect(ctx context.Context, replicas int) (Inspection, error) {
	nc := s.c.nc
	out := Inspection{Version: nc.ConnectedServerVersion(), Cluster: nc.ConnectedClusterName(),
		MaxPayload: nc.MaxPayload(), Headers: nc.HeadersSupported(), Protected: nc.AuthRequired()}
	if err := s.whoami(ctx, &out); err != nil {
		return out, err
	}
	var err error
	if out.Separation, err = AccountCheckOf(s.c).Separation(ctx); errors.Is(err, ErrNoJetStream) {
		out.NoJetStream = err
		return out, nil
	} else if err != nil {
		return out, err
	}
	if out.Limits, err = s.limits(ctx, replicas); err != nil {
		return out, err
	}
	var log struct {
		Config struct {
			Replicas int `json:"num_replicas"`
		} `json:"config"`
	}
	err = s.c.api(ctx, "STREAM.INFO."+topology.Log(s.name), nil, &log)
	switch {
	case err == nil:
		out.SetUp, out.Replicas = true, log.Config.Replicas
	case code(err) != codeStreamNotFound && !errors.Is(err, ErrDenied):
		return out, fmt.Errorf("look at the log of station %s: %w", s.name, err)
	}
	return out, nil
}

// whoami asks what the server knows of this user. One who may not ask, and a server that answers no one, leave it out.
func (s *Station) whoami(ctx context.Context, out *Inspection) error {
	begin := time.Now()
	m, err := s.c.request(ctx, &nats.Msg{Subject: topology.UserInfo})
	if errors.Is(err, ErrDenied) || untaken(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask the server for the rights of this user: %w", err)
	}
	var answer struct {
		Server struct {
			Time time.Time `json:"time"`
		} `json:"server"`
		Data struct {
			User        string        `json:"user"`
			Account     string        `json:"account"`
			AccountName string        `json:"account_name"`
			UserName    string        `json:"user_name"`
			Expires     time.Duration `json:"expires"`
			Permissions *struct {
				Publish   *Side `json:"publish"`
				Subscribe *Side `json:"subscribe"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("answer on %s: %w", topology.UserInfo, err)
	}
	d := answer.Data
	out.User, out.Account = named(d.UserName, d.User), named(d.AccountName, d.Account)
	out.Expires, out.Rights = d.Expires, &Rights{}
	if p := d.Permissions; p != nil {
		if p.Publish != nil {
			out.Rights.Publish = *p.Publish
		}
		if p.Subscribe != nil {
			out.Rights.Subscribe = *p.Subscribe
		}
	}
	if !answer.Server.Time.IsZero() {
		out.Round = time.Since(begin)
		out.Skew, out.ClockKnown = answer.Server.Time.Sub(begin.Add(out.Round/2)), true
	}
	return nil
}

// named is a name with the key that it stands for.
func named(name, key string) string {
	if name == "" || name == key {
		return key
	}
	return name + " (" + key + ")"
}

// limits asks for those of the account; nil where this user may not ask.
func (s *Station) limits(ctx context.Context, replicas int) (*AccountLimits, error) {
	type tier struct {
		Store   int64 `json:"storage"`
		Streams int   `json:"streams"`
		Limits  struct {
			Store         int64 `json:"max_storage"`
			Streams       int   `json:"max_streams"`
			Consumers     int   `json:"max_consumers"`
			MaxPending    int   `json:"max_ack_pending"`
			StreamBytes   int64 `json:"storage_max_stream_bytes"`
			BytesRequired bool  `json:"max_bytes_required"`
		} `json:"limits"`
	}
	var answer struct {
		tier
		Tiers map[string]tier `json:"tiers"`
	}
	err := s.c.api(ctx, "INFO", nil, &answer)
	if errors.Is(err, ErrDenied) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the limits of the account: %w", limitHint(err))
	}
	t, name := answer.tier, ""
	if len(answer.Tiers) > 0 {
		name = fmt.Sprintf("R%d", replicas)
		t = answer.Tiers[name] // none is a limit of 0 for everything
	}
	return &AccountLimits{Store: t.Limits.Store, StreamBytes: t.Limits.StreamBytes, Streams: t.Limits.Streams,
		Consumers: t.Limits.Consumers, MaxPending: t.Limits.MaxPending, BytesRequired: t.Limits.BytesRequired,
		UsedStore: t.Store, UsedStreams: t.Streams, Tier: name}, nil
}
