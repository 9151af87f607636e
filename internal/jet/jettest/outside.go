package jettest

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Outsider is a plain client of a NATS server, as programs of others are.
type Outsider struct {
	t testing.TB
	*nats.Conn
	js jetstream.JetStream
}

// Outside connects to a server, with what it is asked for as options.
func Outside(t testing.TB, url string, opts ...nats.Option) *Outsider {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &Outsider{t: t, Conn: nc, js: js}
}

// Stream makes a stream, which is in memory.
func (o *Outsider) Stream(name string, subjects ...string) {
	o.t.Helper()
	_, err := o.js.CreateStream(o.t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects,
		Storage: jetstream.MemoryStorage})
	if err != nil {
		o.t.Fatalf("stream %s: %v", name, err)
	}
}

// Unstream removes a stream.
func (o *Outsider) Unstream(name string) {
	o.t.Helper()
	if err := o.js.DeleteStream(o.t.Context(), name); err != nil {
		o.t.Fatalf("stream %s: %v", name, err)
	}
}

// Say publishes a message, with an id where one is given, and returns once the server has it.
func (o *Outsider) Say(subject, data, id string) {
	o.t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	if id != "" {
		m.Header.Set(nats.MsgIdHdr, id)
	}
	if err := o.PublishMsg(m); err != nil {
		o.t.Fatal(err)
	}
	if err := o.Flush(); err != nil {
		o.t.Fatal(err)
	}
}

// Open is how many messages of a stream its consumers have still to acknowledge, and how many consumers there are.
func (o *Outsider) Open(stream string) (messages uint64, consumers int) {
	o.t.Helper()
	s, err := o.js.Stream(o.t.Context(), stream)
	if err != nil {
		o.t.Fatalf("stream %s: %v", stream, err)
	}
	for info := range s.ListConsumers(context.WithoutCancel(o.t.Context())).Info() {
		consumers++
		messages += info.NumPending + uint64(info.NumAckPending)
	}
	return messages, consumers
}

// Stored are the messages of a stream, as subject, space and text.
func (o *Outsider) Stored(stream string) (all []string) {
	o.t.Helper()
	s, err := o.js.Stream(o.t.Context(), stream)
	if err != nil {
		o.t.Fatalf("stream %s: %v", stream, err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(o.t.Context(), seq)
		if err != nil {
			o.t.Fatalf("message %d of %s: %v", seq, stream, err)
		}
		all = append(all, m.Subject+" "+string(m.Data))
	}
	return all
}

// Answers are the messages on the inbox of a request.
type Answers struct {
	t   testing.TB
	sub *nats.Subscription
}

// Answer is one of them; Header gives the value of a header, and Bare says that it has none.
type Answer struct {
	Data   string
	Header func(name string) string
	Bare   bool
}

// Hear listens on a subject, or on a new inbox where that is "".
func (o *Outsider) Hear(subject string) *Answers {
	o.t.Helper()
	if subject == "" {
		subject = nats.NewInbox()
	}
	sub, err := o.SubscribeSync(subject)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := o.Flush(); err != nil {
		o.t.Fatal(err)
	}
	return &Answers{o.t, sub}
}

// Ask sends a request whose answers are received, with an id where one is given.
func (o *Outsider) Ask(subject, data, id string) *Answers {
	o.t.Helper()
	a := o.Hear("")
	m := nats.NewMsg(subject)
	m.Reply, m.Data = a.sub.Subject, []byte(data)
	if id != "" {
		m.Header.Set(nats.MsgIdHdr, id)
	}
	if err := o.PublishMsg(m); err != nil {
		o.t.Fatal(err)
	}
	return a
}

// Subject is where they come.
func (a *Answers) Subject() string { return a.sub.Subject }

// Next waits for the next one.
func (a *Answers) Next(ctx context.Context) (Answer, error) {
	m, err := a.sub.NextMsgWithContext(ctx)
	if err != nil {
		return Answer{}, err
	}
	return Answer{string(m.Data), m.Header.Get, len(m.Header) == 0}, nil
}

// Leave stops listening.
func (a *Answers) Leave() {
	a.t.Helper()
	if err := a.sub.Unsubscribe(); err != nil {
		a.t.Fatal(err)
	}
}

// Bucket makes a bucket of objects.
func (o *Outsider) Bucket(name string) {
	o.t.Helper()
	if _, err := o.js.CreateObjectStore(o.t.Context(), jetstream.ObjectStoreConfig{Bucket: name}); err != nil {
		o.t.Fatalf("bucket %s: %v", name, err)
	}
}

// Objects are the objects of a bucket by name.
func (o *Outsider) Objects(bucket string) map[string]string {
	o.t.Helper()
	store, err := o.js.ObjectStore(o.t.Context(), bucket)
	if err != nil {
		o.t.Fatalf("bucket %s: %v", bucket, err)
	}
	all := map[string]string{}
	infos, err := store.List(o.t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		o.t.Fatalf("bucket %s: %v", bucket, err)
	}
	for _, info := range infos {
		if all[info.Name], err = store.GetString(o.t.Context(), info.Name); err != nil {
			o.t.Fatalf("object %s: %v", info.Name, err)
		}
	}
	return all
}
