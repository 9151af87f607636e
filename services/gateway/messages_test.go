package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet/jettest"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/outside"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// subscriber is an agent with subscriptions.
func subscriber(name, subscribe string) string {
	return strings.Replace(agent(name, ""), "sandbox:\n", "subscribe:\n"+subscribe+"sandbox:\n", 1)
}

// outsideFiles are agents that subscribe to messages.
var outsideFiles = map[string]string{
	"agents/orders.prompt": subscriber("orders", "  - {subject: orders.*.new, task: \"See {{id}}: {{note}} on {{$subject}}\", session: \"s-{{id}}\", autonomy: 5, variables: {who: \"{{by.name}}\"}}\n"),
	"agents/closed.prompt": subscriber("closed", "  - {subject: payroll.new, task: \"pay\"}\n"),
	"agents/pings.prompt":  subscriber("pings", "  - {subject: pings, task: \"ping {{$text}}\", autonomy: 5}\n"),
	"scripts/orders.yaml":  talks, "scripts/closed.yaml": talks, "scripts/pings.yaml": talks,
}

// logged is a log that is read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// follow has messages start runs of a world, as one gateway does; stop ends it.
func (w *world) follow(t *testing.T, cfg service.Messages, log *logged) (stop func()) {
	t.Helper()
	conn, err := station.Gateway(t.Context(), w.station)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MessagesRate = 1000
	m, err := outside.New(t.Context(), outside.Config{Messages: cfg}, conn, w.client, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// until waits for something.
func until(t *testing.T, there func() bool) {
	t.Helper()
	for end := time.Now().Add(comes); !there(); pause(t) {
		if time.Now().After(end) {
			t.Fatal("it did not come")
		}
	}
}

// comes is how long what a test waits for may take: a test that waits for ever says less than one that fails.
const comes = 75 * time.Second

// tasks are those of the runs of an agent that have ended, sorted.
func (w *world) tasks(t *testing.T, agent string) []string {
	t.Helper()
	all, err := w.client.Runs().Find(t.Context(), client.Of{})
	if err != nil {
		t.Fatal(err)
	}
	var tasks []string
	for _, r := range all {
		if r.AgentName != agent || !r.Status.Ended() {
			continue
		}
		s, err := w.client.State(t.Context(), r.HarnessID)
		if err != nil {
			t.Fatal(err)
		}
		if s.Status != events.Completed || s.Created.By != "subscription of "+agent {
			t.Errorf("%s by %s: %+v", s.Status, s.Created.By, s.Result)
		}
		tasks = append(tasks, s.Created.Task)
	}
	slices.Sort(tasks)
	return tasks
}

// letters are the dead letters of a code.
func (w *world) letters(t *testing.T, code string) (found []client.Letter) {
	t.Helper()
	all, err := w.client.DeadLetters().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Code == code {
			found = append(found, l)
		}
	}
	return found
}

func TestMessages(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Port: -1, LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	cfg := service.Messages{MessagesURL: server.URL(), MessagesSubjects: []string{"orders.>", "pings"}}
	w := newWorldOf(t, outsideFiles, func(c *service.Config) { c.Messages = cfg })
	outside := jettest.Outside(t, server.URL())
	outside.Stream("ORDERS", "orders.>")
	outside.Say("orders.old.new", `{"id":"old"}`, "")
	logs := [2]*logged{{}, {}}
	stop := w.follow(t, cfg, logs[0])
	w.follow(t, cfg, logs[1])
	until(t, func() bool { _, n := outside.Open("ORDERS"); return n == 1 })
	order := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"note":"{{by.name}} {{$text}}","by":{"name":"Ann"}}`, id)
	}
	t.Run("TRIG-10 each message of a stream starts one run, with two gateways and after one of them has gone", func(t *testing.T) {
		var want []string
		for n := range 6 {
			id := fmt.Sprintf("a%d", n)
			outside.Say("orders.eu.new", order(id), "")
			want = append(want, "See "+id+": {{by.name}} {{$text}} on orders.eu.new")
			if n == 3 {
				stop()
			}
		}
		until(t, func() bool { return len(w.tasks(t, "orders")) >= len(want) })
		until(t, func() bool { n, _ := outside.Open("ORDERS"); return n == 0 })
		if got := w.tasks(t, "orders"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		runs, err := w.client.Runs().Find(t.Context(), client.Of{Session: "s-a1"})
		if err != nil || len(runs) != 1 {
			t.Fatalf("%v, %v", runs, err)
		}
		if s, err := w.client.State(t.Context(), runs[0].HarnessID); err != nil || s.Created.Variables["who"] != "Ann" {
			t.Errorf("%+v, %v", s.Created, err)
		}
	})
	t.Run("TRIG-10 a message that can start no run is a dead letter with the reason, and those behind it start theirs", func(t *testing.T) {
		before := len(w.tasks(t, "orders"))
		outside.Say("orders.eu.new", `{"id":"b","by":{"name":"x"}}`, "")
		outside.Say("orders.eu.new", "\xff\xfe", "")
		outside.Say("orders.eu.new", `{"id":"`+strings.Repeat("x", 256<<10)+`"}`, "")
		outside.Say("orders.eu.new", strings.Replace(order("b c"), "Ann", "B", 1), "") // no id of a session
		outside.Say("orders.eu.new", order("last"), "")
		until(t, func() bool { return len(w.tasks(t, "orders")) > before })
		for code, n := range map[string]int{"message_lacks_value": 2, "message_no_text": 1, "message_too_large": 1} {
			found := w.letters(t, code)
			if len(found) != n {
				t.Errorf("%d letters %s, want %d", len(found), code, n)
				continue
			}
			if l := found[0]; l.By != "gateway" || l.Subject != "orders.eu.new" || !strings.Contains(l.Reason, "agent orders") || l.Hint == "" || len(l.Data) > 9<<10 {
				t.Errorf("%.300v", l)
			}
		}
		if l := w.letters(t, "message_lacks_value"); len(l) > 0 {
			if _, err := w.client.DeadLetters().Replay(t.Context(), l[0].Seq); err == nil || !strings.Contains(err.Error(), "send it again from where it came") {
				t.Errorf("replayed: %v", err)
			}
		}
	})
	t.Run("TRIG-10 a subject that no operator allowed is not followed, and the log says how to", func(t *testing.T) {
		until(t, func() bool { return logs[1].has("INSPAN_MESSAGES_SUBJECTS does not allow payroll.new") })
		outside.Say("payroll.new", "{}", "")
		if got := w.tasks(t, "closed"); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
	t.Run("TRIG-10 without a stream a message starts one run, with its id once for ever", func(t *testing.T) {
		w.follow(t, cfg, &logged{})
		until(t, func() bool { return logs[1].has(`"subject":"pings","message":"followed"`) })
		until(t, func() bool { // the first ones may come before someone is there
			outside.Say("pings", "first", "first")
			return len(w.tasks(t, "pings")) > 0
		})
		for _, id := range []string{"one", "one", "", "", "first"} {
			outside.Say("pings", "x"+id, id)
		}
		want := []string{"ping first", "ping x", "ping x", "ping xone"}
		until(t, func() bool { return len(w.tasks(t, "pings")) >= len(want) })
		outside.Say("pings", "zlast", "zlast")
		until(t, func() bool { return slices.Contains(w.tasks(t, "pings"), "ping zlast") })
		if got := w.tasks(t, "pings"); !slices.Equal(got, append(want, "ping zlast")) {
			t.Errorf("%q", got)
		}
	})
}

func TestOwnMessages(t *testing.T) {
	t.Parallel()
	cfg := service.Messages{MessagesSubjects: []string{"pings"}}
	w := newWorldOf(t, outsideFiles, func(c *service.Config) { c.Messages = cfg })
	log := &logged{}
	w.follow(t, cfg, log)
	guest := jettest.Outside(t, w.station.URL())
	t.Run("TRIG-10 whoever may dispatch publishes what is allowed on the server of the station, and nothing else", func(t *testing.T) {
		until(t, func() bool { return log.has(`"subject":"pings","message":"followed"`) })
		for _, subject := range []string{"orders.eu.new", "pings.more", "pings"} {
			refused := ""
			if err := guest.Publish(subject, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if err := guest.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := guest.LastError(); err != nil && strings.Contains(err.Error(), `Publish to "`+subject+`"`) {
				refused = err.Error()
			}
			if (refused == "") != (subject == "pings") {
				t.Errorf("%s: %q", subject, refused)
			}
		}
		until(t, func() bool {
			guest.Say("pings", "again", "again")
			return slices.Contains(w.tasks(t, "pings"), "ping again")
		})
		if _, err := guest.SubscribeSync("pings"); err == nil && guest.Flush() == nil && !strings.Contains(fmt.Sprint(guest.LastError()), "Subscription") {
			t.Error("a guest receives what others publish for agents")
		}
	})
}
