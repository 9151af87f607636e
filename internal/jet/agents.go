package jet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/inspan/inspan/internal/agentbus"
	"github.com/inspan/inspan/pkg/events"
)

// AgentBus speaks the Synadia Agent Protocol in the account of a connection.
type AgentBus struct{ c *Conn }

var _ agentbus.Bus = AgentBus{}

// AgentBusOf returns that of a connection.
func AgentBusOf(c *Conn) AgentBus { return AgentBus{c} }

const (
	// heartbeat is how often an agent says that it is there, agentsAge how old a list of agents may be.
	heartbeat = 10 * time.Second
	agentsAge = 2 * time.Second
	// maxPrompts is how many prompts are answered at a time by one process; the next one is refused.
	maxPrompts = 256
	// aliveWait is how long the server may take to say that no one takes an answer.
	aliveWait = 250 * time.Millisecond
)

// agentService is a service while it is served.
type agentService struct {
	bus AgentBus
	agentbus.Service
	began time.Time
	room  chan struct{} // one value for each prompt under way
	work  sync.WaitGroup

	mu sync.Mutex
	// Guarded by mu: the agents, when they were listed, and the id of the instance of each.
	names  []string
	listed time.Time
	ids    map[string]string
}

// Serve implements agentbus.Bus.
func (b AgentBus) Serve(ctx context.Context, s agentbus.Service) (err error) {
	a := &agentService{bus: b, Service: s, began: time.Now().UTC(), room: make(chan struct{}, maxPrompts),
		ids: map[string]string{}}
	var subs []*nats.Subscription
	defer func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // it fails only on a closed connection, where it is gone anyway
		}
		a.work.Wait()
	}()
	receive := func(subject, queue string, take func(context.Context, *nats.Msg)) {
		if err != nil {
			return
		}
		var sub *nats.Subscription
		sub, err = b.c.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) { take(ctx, m) })
		if err == nil {
			subs = append(subs, sub)
		}
	}
	receive(events.AgentPromptSubject(s.Station, "*"), events.AgentsName, a.prompt)
	receive(events.AgentStatusSubject(s.Station, "*"), events.AgentsName, a.status)
	for verb, answer := range map[micro.Verb]func(who micro.ServiceIdentity, agent string) any{
		micro.PingVerb: a.ping, micro.InfoVerb: a.info, micro.StatsVerb: a.stats} {
		for _, to := range []string{"", "." + events.AgentsName, "." + events.AgentsName + ".*"} {
			receive("$SRV."+verb.String()+to, "", func(ctx context.Context, m *nats.Msg) { a.described(ctx, m, answer) })
		}
	}
	if err == nil {
		err = b.c.nc.FlushTimeout(requestWait)
	}
	if err != nil {
		return fmt.Errorf("service agents: %w", err)
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for ctx.Err() == nil {
		for _, agent := range a.all(ctx) {
			_ = b.publish(events.AgentHeartbeatSubject(s.Station, agent), a.heartbeat(agent)) // the next one comes soon
		}
		select {
		case <-ctx.Done():
		case <-beat.C:
		}
	}
	return nil
}

// all are the agents that there are.
func (a *agentService) all(ctx context.Context) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.listed) < agentsAge {
		return a.names
	}
	names, err := a.Agents(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.Failed(fmt.Errorf("list of agents: %w", err))
		}
		return a.names
	}
	a.names, a.listed = names, time.Now()
	for _, name := range names {
		if a.ids[name] == "" {
			a.ids[name] = rand.Text()
		}
	}
	return names
}

// who is the instance of an agent.
func (a *agentService) who(agent string) micro.ServiceIdentity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return micro.ServiceIdentity{Name: events.AgentsName, ID: a.ids[agent], Version: a.Program,
		Metadata: map[string]string{
			"agent": events.AgentsHarness, "owner": a.Station, "session": agent, "protocol_version": agentbus.Version}}
}

// described answers a question of the tools of NATS, once for each agent that it is about.
func (a *agentService) described(ctx context.Context, m *nats.Msg,
	answer func(who micro.ServiceIdentity, agent string) any) {
	if !strings.HasPrefix(m.Reply, answerPrefix) {
		return
	}
	one := ""
	if t := strings.Split(m.Subject, "."); len(t) == 4 {
		one = t[3]
	}
	for _, agent := range a.all(ctx) {
		if who := a.who(agent); one == "" || one == who.ID {
			_ = a.bus.publish(m.Reply, answer(who, agent)) // whoever asked may have gone
		}
	}
}

func (a *agentService) ping(who micro.ServiceIdentity, _ string) any {
	return micro.Ping{ServiceIdentity: who, Type: micro.PingResponseType}
}

func (a *agentService) info(who micro.ServiceIdentity, agent string) any {
	return micro.Info{ServiceIdentity: who, Type: micro.InfoResponseType, Description: "Inspan agent " + agent,
		Endpoints: []micro.EndpointInfo{
			{Name: "prompt", Subject: events.AgentPromptSubject(a.Station, agent), QueueGroup: events.AgentsName,
				Metadata: map[string]string{"max_payload": agentbus.MaxPayload, "attachments_ok": "false"}},
			{Name: "status", Subject: events.AgentStatusSubject(a.Station, agent), QueueGroup: events.AgentsName,
				Metadata: map[string]string{}}}}
}

func (a *agentService) stats(who micro.ServiceIdentity, agent string) any {
	return micro.Stats{ServiceIdentity: who, Type: micro.StatsResponseType, Started: a.began,
		Endpoints: []*micro.EndpointStats{{Name: "prompt", Subject: events.AgentPromptSubject(a.Station, agent),
			QueueGroup: events.AgentsName}}}
}

// heartbeat of an agent.
func (a *agentService) heartbeat(agent string) any {
	return map[string]any{"agent": events.AgentsHarness, "owner": a.Station, "session": agent,
		"instance_id": a.who(agent).ID,
		"ts":          time.Now().UTC().Format(time.RFC3339), "interval_s": int(heartbeat / time.Second)}
}

// status answers whether an agent is there.
func (a *agentService) status(ctx context.Context, m *nats.Msg) {
	agent := m.Subject[strings.LastIndex(m.Subject, ".")+1:]
	switch {
	case !strings.HasPrefix(m.Reply, answerPrefix):
	case !slices.Contains(a.all(ctx), agent):
		_ = a.bus.Fail(m.Reply, 404, "there is no agent "+agent) // whoever asked may have gone
	default:
		_ = a.bus.publish(m.Reply, a.heartbeat(agent))
	}
}

// prompt hands a prompt on.
func (a *agentService) prompt(ctx context.Context, m *nats.Msg) {
	if !strings.HasPrefix(m.Reply, answerPrefix) {
		return
	}
	select {
	case a.room <- struct{}{}:
	default:
		_ = errors.Join(a.bus.Fail(m.Reply, 429, "too many prompts at a time: send it again later"), a.bus.End(m.Reply))
		return
	}
	p := agentbus.Prompt{Agent: m.Subject[strings.LastIndex(m.Subject, ".")+1:], Data: m.Data,
		ID: m.Header.Get(nats.MsgIdHdr), Reply: m.Reply}
	a.work.Go(func() {
		defer func() { <-a.room }()
		a.Prompt(ctx, p)
	})
}

func (b AgentBus) publish(subject string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode for %s: %w", subject, err)
	}
	return b.c.nc.Publish(subject, data)
}

// Send implements agentbus.Bus.
func (b AgentBus) Send(reply string, chunk agentbus.Chunk) error { return b.publish(reply, chunk) }

// Fail implements agentbus.Bus.
func (b AgentBus) Fail(reply string, code int, text string) error {
	m := nats.NewMsg(reply)
	m.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(code))
	m.Header.Set(micro.ErrorHeader, strings.Join(strings.Fields(text), " ")) // one line
	return b.c.nc.PublishMsg(m)
}

// End implements agentbus.Bus.
func (b AgentBus) End(reply string) error { return b.c.nc.Publish(reply, nil) }

// Alive implements agentbus.Bus. The server says at once that no one subscribes to a subject; who does says nothing.
func (b AgentBus) Alive(ctx context.Context, reply string) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveWait)
	defer cancel()
	data, err := json.Marshal(agentbus.Ack())
	if err != nil {
		return true
	}
	_, err = b.c.nc.RequestWithContext(ctx, reply, data)
	return !errors.Is(err, nats.ErrNoResponders)
}

// maxAnswers is how many answers to one question are kept until they are read.
const maxAnswers = 8

// Ask implements agentbus.Bus.
func (b AgentBus) Ask(station string) (subject string, answers <-chan []byte, stop func(), err error) {
	subject = events.AgentAnswerSubject(station, rand.Text())
	out := make(chan []byte, maxAnswers)
	sub, err := b.c.nc.Subscribe(subject, func(m *nats.Msg) {
		select {
		case out <- m.Data:
		default: // no one decides so often
		}
	})
	if err == nil {
		err = b.c.nc.FlushTimeout(requestWait)
	}
	if err != nil {
		return "", nil, nil, fmt.Errorf("ask on %s: %w", subject, err)
	}
	return subject, out, func() { _ = sub.Unsubscribe() }, nil // gone with the connection at the latest
}
