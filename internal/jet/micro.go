package jet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/inspan/inspan/pkg/events"
)

// answerPrefix is where answers may go. A service that answers wherever it is told would say, with its own rights,
// what the asker may not.
const answerPrefix = "_INBOX."

// Services makes services visible to NATS tools, and finds those that are.
type Services struct{ c *Conn }

// Services returns what registers services and finds them.
func (c *Conn) Services() Services { return Services{c} }

// Register makes a service visible: `nats micro ls` lists it as inspan-{role}, and a request on inspan.{role}.status is
// answered by one instance with status as JSON, which also goes into the service's statistics. status is given what the
// request holds, nil for statistics. Only questions with an inbox for the answer are answered. version has the form
// 1.2.3, status may be nil. stop must be called before the connection is closed.
func (s Services) Register(role events.Service, version string, status func(question []byte) any) (stop func() error,
	err error) {
	if status == nil {
		status = func([]byte) any { return struct{}{} }
	}
	d := desk{nc: s.c.nc, began: time.Now().UTC(), status: status, endpoint: statusSubject(role),
		who: micro.ServiceIdentity{Name: "inspan-" + string(role), ID: rand.Text(), Version: version,
			Metadata: map[string]string{}}}
	var subs []*nats.Subscription
	stop = func() error {
		var first error
		for _, sub := range subs {
			if err := sub.Drain(); err != nil && first == nil {
				first = err
			}
		}
		return first
	}
	receive := func(subject, queue string, answer func(question []byte) any) {
		if err != nil {
			return
		}
		var sub *nats.Subscription
		if sub, err = s.c.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) { d.answer(m, answer(m.Data)) }); err == nil {
			subs = append(subs, sub)
		}
	}
	for verb, answer := range map[micro.Verb]func([]byte) any{
		micro.PingVerb: d.ping, micro.InfoVerb: d.info, micro.StatsVerb: d.stats,
	} {
		for _, to := range []string{"", "." + d.who.Name, "." + d.who.Name + "." + d.who.ID} {
			receive("$SRV."+verb.String()+to, "", answer)
		}
	}
	receive(d.endpoint, micro.DefaultQueueGroup, status)
	if err == nil {
		err = s.c.nc.FlushTimeout(requestWait) // the server knows of it when Register returns
	}
	if err != nil {
		_ = stop() // what went wrong is told below
		return nil, fmt.Errorf("service inspan-%s: %w", role, err)
	}
	return stop, nil
}

// statusSubject is where one instance of a role answers what it is asked.
func statusSubject(role events.Service) string { return "inspan." + string(role) + ".status" }

// Ask puts a question to one instance of a role on its status subject.
func (s Services) Ask(ctx context.Context, role events.Service, question []byte) ([]byte, error) {
	m, err := s.c.nc.RequestWithContext(ctx, statusSubject(role), question)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", role, err)
	}
	return m.Data, nil
}

// desk answers questions about a service.
type desk struct {
	nc       *nats.Conn
	who      micro.ServiceIdentity
	began    time.Time
	endpoint string
	status   func(question []byte) any
}

func (d desk) ping([]byte) any {
	return micro.Ping{ServiceIdentity: d.who, Type: micro.PingResponseType}
}

func (d desk) info([]byte) any {
	return micro.Info{ServiceIdentity: d.who, Type: micro.InfoResponseType,
		Description: "Inspan " + strings.TrimPrefix(d.who.Name, "inspan-"),
		Endpoints: []micro.EndpointInfo{{Name: "status", Subject: d.endpoint, QueueGroup: micro.DefaultQueueGroup,
			Metadata: map[string]string{}}}}
}

func (d desk) stats([]byte) any {
	data, _ := json.Marshal(d.status(nil)) // plain data
	return micro.Stats{ServiceIdentity: d.who, Type: micro.StatsResponseType, Started: d.began,
		Endpoints: []*micro.EndpointStats{{Name: "status", Subject: d.endpoint, QueueGroup: micro.DefaultQueueGroup,
			Data: data}}}
}

func (d desk) answer(m *nats.Msg, with any) {
	if !strings.HasPrefix(m.Reply, answerPrefix) {
		return
	}
	b, err := json.Marshal(with)
	if err != nil {
		b = []byte("{}")
	}
	_ = d.nc.Publish(m.Reply, b) // whoever asked may have gone
}
