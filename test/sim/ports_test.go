package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// journal is the log of the aggregates of one name.
type journal struct {
	l         *life
	aggregate string
}

// Append implements kernel.Journal. A dead process hears that no one knows, as one that was cut off would.
func (j journal) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	by := j.of(e)
	if j.aggregate == events.RunAggregate {
		j.l.begins(taskOf(ctx), e)
	}
	v := j.l.step(ctx, opAppend, true, "append %s %s after %d", kernel.Key(j.aggregate, e.ID), e.Kind, e.Head)
	if j.aggregate == events.WorkspaceAggregate {
		j.l.p.w.audit.grove.appends(j.l, e)
	}
	switch v {
	case before, died:
		return kernel.Ack{Outcome: kernel.Unknown, Err: errDied}
	case after:
		by.Append(context.WithoutCancel(ctx), e)
		return kernel.Ack{Outcome: kernel.Unknown, Err: errDied}
	default:
		return by.Append(ctx, e)
	}
}

// of is the journal with the rights of whoever says an entry. Sessions and workspaces have one author.
func (j journal) of(e kernel.Entry) kernel.Journal {
	if j.aggregate == events.RunAggregate {
		return j.l.p.w.st.JournalOf(authorOf(e.Bytes))
	}
	return j.l.p.w.st.JournalFor(j.aggregate)
}

func authorOf(b []byte) events.Service {
	f, err := events.Decode(b)
	if err != nil {
		return ""
	}
	return f.Author()
}

// Read implements kernel.Journal.
func (j journal) Read(ctx context.Context, run string, after uint64) (evs []kernel.Record, more bool, err error) {
	err = j.l.do(ctx, opRead, fmt.Sprintf("read %s after %d", kernel.Key(j.aggregate, run), after), func(ctx context.Context) (err error) {
		evs, more, err = j.l.p.w.st.JournalFor(j.aggregate).Read(ctx, run, after)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return evs, more, nil
}

// Last implements kernel.Journal.
func (j journal) Last(ctx context.Context, run string) (r kernel.Record, ok bool, err error) {
	err = j.l.do(ctx, opRead, "last "+kernel.Key(j.aggregate, run), func(ctx context.Context) (err error) {
		r, ok, err = j.l.p.w.st.JournalFor(j.aggregate).Last(ctx, run)
		return err
	})
	return r, ok && err == nil, err
}

type timers struct {
	l         *life
	aggregate string
}

func (t timers) Set(ctx context.Context, run, name string, at time.Time, after uint64) error {
	return t.l.do(ctx, opStore, fmt.Sprintf("timer %s.%s in %s", run, name, at.Sub(t.l.p.w.clock.Now()).Round(time.Millisecond)), func(ctx context.Context) error {
		return t.l.p.w.st.TimersFor(t.aggregate).Set(ctx, run, name, at, after)
	})
}

type blobs struct{ l *life }

func (b blobs) Put(ctx context.Context, kind string, data []byte) (ref events.Ref, err error) {
	err = b.l.do(ctx, opStore, "store "+kind, func(ctx context.Context) (err error) {
		ref, err = b.l.p.w.st.Blobs().Put(ctx, kind, data)
		return err
	})
	return ref, err
}

func (b blobs) Get(ctx context.Context, ref events.Ref) (data []byte, err error) {
	err = b.l.do(ctx, opStore, "fetch "+ref.Type, func(ctx context.Context) (err error) {
		data, err = b.l.p.w.st.Blobs().Get(ctx, ref)
		return err
	})
	return data, err
}

type kv struct {
	l    *life
	name string
	s    kernel.KV
}

func (s kv) Put(ctx context.Context, key string, value []byte) error {
	return s.l.do(ctx, opStore, s.name+" put "+key, func(ctx context.Context) error { return s.s.Put(ctx, key, value) })
}

func (s kv) Create(ctx context.Context, key string, value []byte) error {
	return s.l.do(ctx, opStore, s.name+" create "+key, func(ctx context.Context) error { return s.s.Create(ctx, key, value) })
}

func (s kv) Get(ctx context.Context, key string) (value []byte, err error) {
	err = s.l.do(ctx, opStore, s.name+" get "+key, func(ctx context.Context) (err error) {
		value, err = s.s.Get(ctx, key)
		return err
	})
	return value, err
}

func (s kv) Load(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	kind := opStore
	if s.name == treeKV {
		kind = opTree
	}
	err = s.l.do(ctx, kind, s.name+" load "+key, func(ctx context.Context) (err error) {
		value, revision, err = s.s.Load(ctx, key)
		return err
	})
	return value, revision, err
}

func (s kv) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	err = s.l.do(ctx, opStore, fmt.Sprintf("%s swap %s after %d", s.name, key, revision), func(ctx context.Context) (err error) {
		now, err = s.s.Swap(ctx, key, value, revision)
		return err
	})
	return now, err
}

func (s kv) Delete(ctx context.Context, key string) error {
	return s.l.do(ctx, opStore, s.name+" delete "+key, func(ctx context.Context) error { return s.s.Delete(ctx, key) })
}

func (s kv) Keys(ctx context.Context, prefix string) (keys []string, err error) {
	err = s.l.do(ctx, opStore, s.name+" keys "+prefix, func(ctx context.Context) (err error) {
		keys, err = s.s.Keys(ctx, prefix)
		return err
	})
	return keys, err
}

func (s kv) Each(ctx context.Context, prefix string, visit func(key string, value []byte) error) error {
	return kernel.EachOf(ctx, s, prefix, visit)
}

type leases struct{ l *life }

func (s leases) Renew(ctx context.Context, instance string) error {
	return s.l.do(ctx, opStore, "lease of "+short(instance), func(ctx context.Context) error {
		s.l.p.w.audit.grove.instances[s.l] = instance
		return s.l.p.w.st.Leases().Renew(ctx, instance)
	})
}

func (s leases) Alive(ctx context.Context, instance string) (alive bool, err error) {
	err = s.l.do(ctx, opStore, "alive? "+short(instance), func(ctx context.Context) (err error) {
		if alive, err = s.l.p.w.st.Leases().Alive(ctx, instance); err == nil && !alive {
			s.l.p.w.audit.grove.lapsed[instance] = true
		}
		return err
	})
	return alive, err
}

type refusals struct{ l *life }

func (r refusals) Refuse(ctx context.Context, by events.Service, d kernel.DeadLetter) error {
	return r.l.do(ctx, opStore, "refuse "+d.Code, func(ctx context.Context) error {
		return r.l.p.w.st.Refusals().Refuse(ctx, by, d)
	})
}

func (r refusals) Refused(ctx context.Context, by events.Service, m kernel.Message) (refused bool, err error) {
	err = r.l.do(ctx, opStore, "refused? "+short(m.Subject()), func(ctx context.Context) (err error) {
		refused, err = r.l.p.w.st.Refusals().Refused(ctx, by, m)
		return err
	})
	return refused, err
}

// delivery is a message whose acknowledgement is an operation like any other.
type delivery struct {
	kernel.Message
	l    *life
	task string
}

func (d delivery) Ack(ctx context.Context) error {
	return d.l.do(withTask(context.WithoutCancel(ctx), d.task), opAck, "ack "+short(d.Subject()), d.Message.Ack)
}

func (d delivery) Nak(delay time.Duration) error {
	return d.l.do(withTask(context.Background(), d.task), opAck, fmt.Sprintf("nak %s for %s", short(d.Subject()), delay), func(context.Context) error {
		return d.Message.Nak(delay)
	})
}

// Working is a sign of life: it may come late, or never.
func (d delivery) Working() error {
	return d.l.do(withTask(context.Background(), d.task), opAck, "working on "+short(d.Subject()), func(context.Context) error {
		return d.Message.Working()
	})
}

// short takes what all names have in common out of a subject or an instance's name.
func short(s string) string {
	s = strings.TrimPrefix(s, "station."+station+".")
	s = strings.TrimPrefix(s, "run.")
	if role, id, ok := strings.Cut(s, "-"); ok && len(id) == 12 {
		return role + "-" + id[:4]
	}
	return s
}
