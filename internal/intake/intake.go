// Package intake has messages from outside start runs: each message on a subject that an agent subscribes to is one
// run of that agent.
//
// Promises: nothing is followed that the operator did not allow, and no subject of stations or of NATS itself. The id
// of a run is made of what identifies its message, so a message that comes again is the same run for ever. A message
// that can start no run is a dead letter with the reason, and one that a stream holds is acknowledged only once its run
// is begun or its letter is written. Values of a message are data: they are put into the texts of the subscription and
// read no further.
package intake

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Message is one from outside.
type Message struct {
	Subject string
	Data    []byte
	// ID identifies the message among all of its subscription, for ever; "" where nothing does.
	ID string
	// Stored says that the message comes again until it is taken. One that is not is lost where it is not taken.
	Stored bool
}

// Following is one subscription, as a source is asked for it.
type Following struct {
	// Name is the same for all who follow the subject for the same purpose: each message is given to one of them.
	Name, Subject string
	// Ready returns once another message is wanted, or with the error of its context.
	Ready func(context.Context) error
	// Take takes a message; an error means that it is to come again later.
	Take func(context.Context, Message) error
	// Lost is told how many messages could not wait for their turn and are lost. Only messages that nothing stores are.
	Lost func(n int)
}

// Source is where messages come from.
type Source interface {
	// Follow gives messages one at a time, until ctx ends or the subscription fails.
	Follow(ctx context.Context, f Following) error
}

// Config of an intake. All but Rate and Every are needed.
type Config struct {
	Station string
	Source  Source
	// Subjects are the patterns that agents may subscribe to, or to parts of.
	Subjects []string
	// Rate is how many messages a second a subscription takes; 0 is DefaultRate.
	Rate float64
	// Agents are those that are registered.
	Agents func(context.Context) ([]events.Agent, error)
	// Start starts a run, unless there is one of that id. An error that is a *RefusedError is the last word.
	Start func(context.Context, events.Task) error
	// Refuse writes a dead letter.
	Refuse kernel.Refusals
	// Report is told what an operator should see: what is followed, and what fails.
	Report func(agent, subject, what string, err error)
	// Every is how often the agents are looked at; 0 is two seconds.
	Every time.Duration
}

// RefusedError is the station's refusal of a task, of which it wrote the dead letter itself.
type RefusedError struct{ Err error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the refusal.
func (e *RefusedError) Unwrap() error { return e.Err }

const (
	// DefaultRate of messages of one subscription, a second.
	DefaultRate = 10
	// MaxMessage is the most bytes of a message.
	MaxMessage = 256 << 10

	lookEvery = 2 * time.Second
	// againFirst and againMost are how long a subscription that failed waits.
	againFirst = time.Second
	againMost  = 30 * time.Second
	// takeWait is how long the start of one run may take.
	takeWait = 20 * time.Second
)

// Intake follows the subscriptions of a station's agents.
type Intake struct {
	cfg Config
	// reported are the subscriptions that were reported as not allowed.
	reported map[string]bool
}

// New makes an intake; Run must be called.
func New(cfg Config) (*Intake, error) {
	if cfg.Source == nil || cfg.Agents == nil || cfg.Start == nil || cfg.Refuse == nil || cfg.Report == nil {
		return nil, errors.New("an intake needs a source, agents, and who starts, refuses and reports")
	}
	for _, s := range cfg.Subjects {
		if err := events.CheckOutsideSubject(s); err != nil {
			return nil, fmt.Errorf("subject %q: %w", s, err)
		}
	}
	if cfg.Rate < 0 {
		return nil, fmt.Errorf("%g messages a second: want more than 0", cfg.Rate)
	}
	if cfg.Rate == 0 {
		cfg.Rate = DefaultRate
	}
	if cfg.Every == 0 {
		cfg.Every = lookEvery
	}
	return &Intake{cfg: cfg, reported: map[string]bool{}}, nil
}

// follower is a subscription that is followed.
type follower struct {
	stop context.CancelFunc
	done chan struct{} // closed once nothing of it runs
}

// Run follows what the registered agents subscribe to, until ctx ends and no message is under way.
func (i *Intake) Run(ctx context.Context) error {
	following := map[string]follower{}
	defer func() {
		for _, f := range following {
			f.stop()
		}
		for _, f := range following {
			<-f.done
		}
	}()
	tick := time.NewTicker(i.cfg.Every)
	defer tick.Stop()
	failed := ""
	for {
		agents, err := i.cfg.Agents(ctx)
		switch {
		case err == nil:
			i.settle(ctx, following, agents)
			failed = ""
		case ctx.Err() == nil && failed != err.Error():
			failed = err.Error()
			i.cfg.Report("", "", "agents cannot be read, subscriptions stay as they are", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// settle follows what is new and no longer what is gone. What has changed is ended before it is followed anew.
func (i *Intake) settle(ctx context.Context, following map[string]follower, agents []events.Agent) {
	wanted := map[string]subscription{}
	for _, a := range agents {
		for _, s := range a.Subscribe {
			key := keyOf(a.Name, s)
			sub, err := i.allowed(a.Name, s)
			if err == nil {
				wanted[key] = sub
			} else if !i.reported[key] {
				i.reported[key] = true
				i.cfg.Report(a.Name, s.Subject, "not followed", err)
			}
		}
	}
	for key, f := range following {
		if _, still := wanted[key]; !still {
			f.stop()
			<-f.done
			delete(following, key)
		}
	}
	for key, sub := range wanted {
		if _, already := following[key]; already {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		f := follower{stop: stop, done: make(chan struct{})}
		following[key] = f
		go func() {
			defer close(f.done)
			i.follow(ctx, sub)
		}()
	}
}

// keyOf tells subscriptions apart, also one from what it was before its texts changed.
func keyOf(agent string, s events.Subscription) string {
	b, _ := json.Marshal(s) // plain data
	return agent + " " + string(b)
}

// allowed reads a subscription, whose texts and subject are checked again: whoever writes the registry need not have
// read an agent's file.
func (i *Intake) allowed(agent string, s events.Subscription) (subscription, error) {
	sub, err := read(i.cfg.Station, agent, s)
	if err != nil {
		return sub, err
	}
	if !slices.ContainsFunc(i.cfg.Subjects, func(p string) bool { return events.SubjectCovers(p, s.Subject) }) {
		return sub, fmt.Errorf("INSPAN_MESSAGES_SUBJECTS does not allow %s: an operator may add it there", s.Subject)
	}
	return sub, nil
}

// follow follows one subscription until ctx ends, again after each failure.
func (i *Intake) follow(ctx context.Context, sub subscription) {
	limit := rate.NewLimiter(rate.Limit(i.cfg.Rate), max(1, int(i.cfg.Rate)))
	lost := &losses{i: i, sub: sub}
	defer lost.end()
	f := Following{Name: sub.name, Subject: sub.of.Subject, Ready: limit.Wait, Lost: lost.add,
		Take: func(ctx context.Context, m Message) error {
			ctx, cancel := context.WithTimeout(ctx, takeWait)
			defer cancel()
			return i.take(ctx, sub, m)
		}}
	i.cfg.Report(sub.agent, sub.of.Subject, "followed", nil)
	failed := ""
	for wait := againFirst; ; wait = min(2*wait, againMost) {
		began := time.Now()
		err := i.cfg.Source.Follow(ctx, f)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the subscription ended")
		}
		if time.Since(began) > againMost {
			wait = againFirst
		}
		if failed != err.Error() {
			failed = err.Error()
			i.cfg.Report(sub.agent, sub.of.Subject, "subscription failed, will try again", err)
		}
		if kernel.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// losses says how many messages were lost, not for each of them: who sends too many would fill the list.
type losses struct {
	i   *Intake
	sub subscription

	mu sync.Mutex
	// n were lost since the last letter, which was at. Guarded by mu.
	n    int
	at   time.Time
	said sync.WaitGroup
}

// lettersEvery is how often a letter says that messages were lost.
const lettersEvery = 10 * time.Second

// add counts lost messages, and writes a letter for those since the last one.
func (l *losses) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n += n; time.Since(l.at) >= lettersEvery {
		l.tell()
	}
}

// end writes the letter for what is left.
func (l *losses) end() {
	l.mu.Lock()
	if l.n > 0 {
		l.tell()
	}
	l.mu.Unlock()
	l.said.Wait()
}

func (l *losses) tell() {
	n := l.n
	l.n, l.at = 0, time.Now()
	l.said.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), takeWait)
		defer cancel()
		err := fmt.Errorf("%d messages on %s came faster than they are taken and are lost", n, l.sub.of.Subject)
		l.i.cfg.Report(l.sub.agent, l.sub.of.Subject, "messages lost", errors.Join(err, l.i.letter(ctx, l.sub,
			Message{Subject: l.sub.of.Subject}, CodeRate, err.Error(),
			"store the subject in a stream, where messages wait; or raise INSPAN_MESSAGES_RATE")))
	})
}

// lowerText is base32 in small letters, which ids may have.
var lowerText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idOf makes an id of texts. Their lengths are hashed with them, so no two lists are the same.
func idOf(texts ...string) string {
	m := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(m, "%d:%s", len(t), t)
	}
	return lowerText.EncodeToString(m.Sum(nil))[:idText]
}

// idText is how many letters of a hash an id has: 130 bits.
const idText = 26
