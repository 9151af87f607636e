package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Setup makes the streams, consumers and buckets of stations, and looks whether they are as they should be.
type Setup struct{ c *Conn }

// Setup returns what sets stations up.
func (c *Conn) Setup() Setup { return Setup{c} }

// ApplyOptions say how a station is set up. The zero value means: the defaults of the table on a new station, and
// what is there already on an old one.
type ApplyOptions struct {
	// Replicas is 1 or 3. The default on a new station is 1.
	Replicas int
	Limits   topology.Limits
	// AckWait and LeaseTerm are 0 for those of the table. Shorter ones are for tests.
	AckWait, LeaseTerm time.Duration
}

// Apply makes the streams, consumers and buckets of a station as the table has them, and changes nothing where they are
// so already. It may be called any number of times, by several programs at once. A user who may not create or update
// gets ErrDenied only where there is something to do: the setup user creates, the upgrade user also updates. What the
// table does not speak of, such as placement, is left as it is. It waits for a server that is not ready yet until ctx
// ends.
func (s Setup) Apply(ctx context.Context, station string, o ApplyOptions) error {
	if err := events.CheckID("station", station); err != nil {
		return err
	}
	if err := s.c.patiently(ctx, func() error { return s.matchBuckets(ctx, station) }); err != nil {
		return fmt.Errorf("look at stream %s: %w", topology.Log(station), limitHint(hinted(err)))
	}
	// The log comes last: it records the names of the buckets for good, so they must have been permitted.
	all := s.c.cfg.Buckets.Streams(station, o.Limits)
	for _, st := range append(all[1:], all[0]) {
		if st.Name == topology.KVStream(topology.LeaseBucket) && o.LeaseTerm > 0 {
			st.MaxAge = o.LeaseTerm
		}
		if err := s.c.patiently(ctx, func() error { return s.applyStream(ctx, station, st, o.Replicas) }); err != nil {
			return fmt.Errorf("set up stream %s: %w", st.Name,
				limitHint(spaceHint(st, s.hintedBuckets(st, hinted(err)))))
		}
	}
	for _, role := range events.Services() {
		for _, co := range topology.Consumers(station, role) {
			if err := s.c.patiently(ctx, func() error { return s.applyConsumer(ctx, co, o.AckWait) }); err != nil {
				return fmt.Errorf("set up consumer %s of %s: %w", co.Name, co.Stream, limitHint(hinted(err)))
			}
		}
	}
	return nil
}

// ErrOtherForm means that a stream is there with another configuration, and that the user may not change it.
var ErrOtherForm = errors.New("the stream has another configuration, and this user changes none: run inspan setup as the user " + topology.UpgradeUser + ", as docs/deploy.md says")

func hinted(err error) error {
	if errors.Is(err, ErrDenied) && !errors.Is(err, ErrOtherForm) {
		return fmt.Errorf("%w: run inspan setup as the user who may", err)
	}
	return err
}

// hintedBuckets says what to do where the users of the server have other names of buckets than the connection.
func (s Setup) hintedBuckets(st topology.Stream, err error) error {
	b := s.c.cfg.Buckets.Named()
	if !errors.Is(err, ErrDenied) || b == (topology.Buckets{}).Named() || st.Name != topology.KVStream(b.State) &&
		st.Name != b.FilesStream() {
		return err
	}
	return fmt.Errorf("%w; %s is %q and %s is %q: the permissions of the NATS server's users need the same names, as docs/deploy.md says",
		err, topology.StateVariable, b.State, topology.FilesVariable, b.Files)
}

// spaceHint says what to do where a server has less storage left than a stream sets aside.
func spaceHint(st topology.Stream, err error) error {
	if c := code(err); c != codeNoStorage && c != codeNoResources && c != codeAccountBytes || st.MaxBytes <= 0 {
		return err
	}
	return fmt.Errorf("%w: the stream sets %d MiB aside, and the server has less left of what it may store, or of its disk: free some, or keep the station on a larger disk", err, (st.MaxBytes+(1<<20-1))>>20)
}

// patiently does something until it is done or fails for good.
func (c *Conn) patiently(ctx context.Context, do func() error) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := do()
		if err == nil || !passes(err) {
			return err
		}
		if pauseErr := kernel.Sleep(ctx, wait); pauseErr != nil {
			return fmt.Errorf("%w (last: %w)", pauseErr, err)
		}
	}
}

// passes reports whether an error of the API passes by itself: no leader yet, or another is at the same thing.
func passes(err error) bool {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.ErrorCode == codeNameInUse || e.ErrorCode == codeClusterNotReady || e.Code == 503 &&
			e.ErrorCode != codeNoResources && e.ErrorCode != codeDisabled && e.ErrorCode != codeNoAccountJS
	}
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrDenied)
}

func (s Setup) applyStream(ctx context.Context, station string, st topology.Stream, replicas int) error {
	var there jetstream.StreamInfo
	err := s.c.api(ctx, "STREAM.INFO."+st.Name, nil, &there)
	switch {
	case code(err) == codeStreamNotFound:
		want := streamConfig(jetstream.StreamConfig{Name: st.Name, MaxBytes: st.MaxBytes, Replicas: 1, Metadata: st.Metadata},
			st, replicas)
		err := s.c.api(ctx, "STREAM.CREATE."+st.Name, want, nil)
		if bound := topology.RequiredBytes(st); code(err) == codeBytesRequired && bound > 0 {
			want.MaxBytes = bound
			err = s.c.api(ctx, "STREAM.CREATE."+st.Name, want, nil)
		}
		return err
	case err != nil:
		return err
	case st.Name == topology.Log(station):
		if err := s.c.cfg.Buckets.Match(station, there.Config.Metadata); err != nil {
			return err
		}
	}
	want := streamConfig(there.Config, st, replicas)
	if sameStream(there.Config, want) {
		return nil
	}
	if err = s.c.api(ctx, "STREAM.UPDATE."+st.Name, want, nil); !errors.Is(err, ErrDenied) {
		return err
	}
	return fmt.Errorf("%w (%w)", ErrOtherForm, err)
}

// streamConfig puts what the table says into a configuration.
func streamConfig(cfg jetstream.StreamConfig, st topology.Stream, replicas int) jetstream.StreamConfig {
	cfg.Description, cfg.Subjects, cfg.Storage = st.Description, st.Subjects, jetstream.FileStorage
	cfg.Retention = jetstream.LimitsPolicy
	if st.Retention == topology.KeepToAck {
		cfg.Retention = jetstream.WorkQueuePolicy
	}
	cfg.Discard = jetstream.DiscardOld
	if st.DiscardNew {
		cfg.Discard = jetstream.DiscardNew
	}
	if st.Bounded {
		cfg.MaxBytes = st.MaxBytes
	}
	if replicas > 0 {
		cfg.Replicas = replicas
	}
	cfg.MaxMsgs, cfg.MaxConsumers = -1, -1
	cfg.MaxMsgSize = -1
	if st.MaxMsgSize > 0 {
		cfg.MaxMsgSize = st.MaxMsgSize
	}
	cfg.MaxMsgsPerSubject = -1
	if st.MaxPerKey > 0 {
		cfg.MaxMsgsPerSubject = st.MaxPerKey
	}
	cfg.MaxAge, cfg.Duplicates = st.MaxAge, st.Window
	cfg.DenyDelete, cfg.DenyPurge, cfg.AllowRollup = st.DenyDelete, st.DenyPurge, st.Rollup
	cfg.AllowMsgTTL, cfg.AllowMsgSchedules, cfg.AllowDirect, cfg.AllowAtomicPublish = st.TTL, st.Schedules, st.Direct,
		st.Batches
	cfg.Sources = nil
	if st.SourceOf != "" {
		cfg.Sources = []*jetstream.StreamSource{{Name: st.SourceOf, FilterSubject: st.SourceSubject}}
	}
	cfg.RePublish = nil
	if st.RepublishFrom != "" {
		cfg.RePublish = &jetstream.RePublish{Source: st.RepublishFrom, Destination: st.RepublishTo}
	}
	return cfg
}

// sameStream compares the parts of a configuration that the table speaks of.
func sameStream(a, b jetstream.StreamConfig) bool {
	sameRepublish := (a.RePublish == nil) == (b.RePublish == nil) && (a.RePublish == nil || *a.RePublish == *b.RePublish)
	sameSources := slices.EqualFunc(a.Sources, b.Sources, func(x, y *jetstream.StreamSource) bool {
		return x.Name == y.Name && x.FilterSubject == y.FilterSubject
	})
	return sameSources && a.Description == b.Description && slices.Equal(a.Subjects, b.Subjects) &&
		a.Retention == b.Retention &&
		a.Storage == b.Storage && a.Discard == b.Discard && a.MaxBytes == b.MaxBytes && a.Replicas == b.Replicas &&
		a.MaxMsgSize == b.MaxMsgSize && a.MaxMsgsPerSubject == b.MaxMsgsPerSubject && a.MaxMsgs == b.MaxMsgs &&
		a.MaxConsumers == b.MaxConsumers && a.MaxAge == b.MaxAge && a.Duplicates == b.Duplicates &&
		a.DenyDelete == b.DenyDelete && a.DenyPurge == b.DenyPurge && a.AllowRollup == b.AllowRollup &&
		a.AllowMsgTTL == b.AllowMsgTTL && a.AllowMsgSchedules == b.AllowMsgSchedules && a.AllowDirect == b.AllowDirect &&
		a.AllowAtomicPublish == b.AllowAtomicPublish && sameRepublish
}

func (s Setup) applyConsumer(ctx context.Context, co topology.Consumer, ackWait time.Duration) error {
	var there jetstream.ConsumerInfo
	err := s.c.api(ctx, "CONSUMER.INFO."+co.Stream+"."+co.Name, nil, &there)
	if err != nil && code(err) != codeNotFound {
		return err
	}
	want := consumerConfig(there.Config, co, ackWait)
	if err == nil && sameConsumer(there.Config, want) {
		return nil
	}
	subject := "CONSUMER.CREATE." + co.Stream + "." + co.Name
	if want.FilterSubject != "" {
		subject += "." + want.FilterSubject
	}
	return s.c.api(ctx, subject, map[string]any{"stream_name": co.Stream, "config": want, "action": ""}, nil)
}

func consumerConfig(cfg jetstream.ConsumerConfig, co topology.Consumer,
	ackWait time.Duration) jetstream.ConsumerConfig {
	cfg.Name, cfg.Durable = co.Name, co.Name
	cfg.FilterSubject, cfg.FilterSubjects = "", co.Filters
	if len(co.Filters) == 1 {
		cfg.FilterSubject, cfg.FilterSubjects = co.Filters[0], nil
	}
	cfg.AckPolicy, cfg.DeliverPolicy, cfg.ReplayPolicy = jetstream.AckExplicitPolicy, jetstream.DeliverAllPolicy,
		jetstream.ReplayInstantPolicy
	cfg.MaxAckPending, cfg.MaxDeliver, cfg.BackOff = co.MaxPending, -1, nil
	switch {
	case ackWait > 0:
		cfg.AckWait = ackWait
	case cfg.AckWait == 0:
		cfg.AckWait = topology.AckWait
	}
	return cfg
}

func sameConsumer(a, b jetstream.ConsumerConfig) bool {
	return a.FilterSubject == b.FilterSubject && slices.Equal(a.FilterSubjects, b.FilterSubjects) &&
		a.AckPolicy == b.AckPolicy &&
		a.DeliverPolicy == b.DeliverPolicy && a.MaxAckPending == b.MaxAckPending && a.MaxDeliver == b.MaxDeliver &&
		a.AckWait == b.AckWait && len(a.BackOff) == len(b.BackOff)
}

// ErrNotSetUp means that a station lacks something that a role needs.
var ErrNotSetUp = errors.New("the station is not set up")

// Check reports what a role misses on a station: nil means that its streams, its consumers with all that it receives,
// and the buckets are there. Buckets of other names than the connection's are a *topology.OtherBucketsError. It needs
// no more than the permissions of the role, and waits for a server that is not ready yet until ctx ends. What is
// missing is ErrNotSetUp.
func (s Setup) Check(ctx context.Context, station string, role events.Service) error {
	for _, st := range s.c.cfg.Buckets.Streams(station, topology.Limits{}) {
		var there jetstream.StreamInfo
		err := s.c.patiently(ctx, func() error { return s.c.api(ctx, "STREAM.INFO."+st.Name, nil, &there) })
		if code(err) == codeStreamNotFound {
			return fmt.Errorf("%w: stream %s: %w", ErrNotSetUp, st.Name, err)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", st.Name, limitHint(err))
		}
		if st.Name == topology.Log(station) {
			if err := s.c.cfg.Buckets.Match(station, there.Config.Metadata); err != nil {
				return err
			}
		}
	}
	for _, co := range topology.Consumers(station, role) {
		var there jetstream.ConsumerInfo
		subject := "CONSUMER.INFO." + co.Stream + "." + co.Name
		err := s.c.patiently(ctx, func() error { return s.c.api(ctx, subject, nil, &there) })
		if code(err) == codeNotFound {
			return fmt.Errorf("%w: consumer %s of %s: %w", ErrNotSetUp, co.Name, co.Stream, err)
		}
		if err != nil {
			return fmt.Errorf("consumer %s of %s: %w", co.Name, co.Stream, err)
		}
		received := append(there.Config.FilterSubjects, there.Config.FilterSubject)
		for _, f := range co.Filters {
			if !slices.Contains(received, f) {
				return fmt.Errorf("%w: consumer %s of %s lacks the filter subject %s", ErrNotSetUp, co.Name, co.Stream, f)
			}
		}
	}
	return nil
}

// CheckBuckets returns a *topology.OtherBucketsError where the station is known to have other buckets than the
// connection names. A station that is not set up, or whose log this user may not look at, says nothing of them.
func (s Setup) CheckBuckets(ctx context.Context, station string) error {
	err := s.matchBuckets(ctx, station)
	if _, other := errors.AsType[*topology.OtherBucketsError](err); other {
		return err
	}
	return nil // whoever reads or writes meets what else is wrong
}

// matchBuckets compares the names with those that the station's log records, where there is one.
func (s Setup) matchBuckets(ctx context.Context, station string) error {
	var there jetstream.StreamInfo
	err := s.c.api(ctx, "STREAM.INFO."+topology.Log(station), nil, &there)
	if code(err) == codeStreamNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	return s.c.cfg.Buckets.Match(station, there.Config.Metadata)
}
