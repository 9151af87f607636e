package station_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// traffic counts the messages between the roles of a station and its server, by what they are.
type traffic struct {
	mu    sync.Mutex
	count map[string]int
}

// tapped is a server whose connections are counted.
type tapped struct {
	jet.Embedded
	tr *traffic
}

// of counts the connections of all users but that of people.
func (tr *traffic) of(user string, s jet.Embedded) jet.Embedded {
	if user == "local" {
		return s
	}
	return tapped{s, tr}
}

// InProcessConn returns a connection whose messages are counted in both directions.
func (s tapped) InProcessConn() (net.Conn, error) {
	server, err := s.Embedded.InProcessConn()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go s.tr.pass(server, far, "to the server")
	go s.tr.pass(far, server, "to the roles")
	return near, nil
}

// pass copies one direction of a connection, message by message.
func (tr *traffic) pass(to io.WriteCloser, from io.Reader, way string) {
	defer to.Close()
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		packet := []byte(line)
		if f := strings.Fields(line); len(f) > 2 && slices.Contains([]string{"PUB", "HPUB", "MSG", "HMSG"}, strings.ToUpper(f[0])) {
			size, err := strconv.Atoi(f[len(f)-1])
			if err != nil {
				return
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
			packet = append(packet, body...)
			tr.mu.Lock()
			tr.count[way+": "+about(f[1])]++
			tr.mu.Unlock()
		}
		if _, err := to.Write(packet); err != nil {
			return
		}
	}
}

// stream is the name of a stream of the station in a subject.
var stream = regexp.MustCompile(`(LOG|IN|TMR)_default`)

// about says what a message is, by its subject.
func about(subject string) string {
	t := strings.Split(subject, ".")
	switch {
	case strings.HasPrefix(subject, "_INBOX"):
		return "answer"
	case strings.Contains(subject, ".evt."):
		return "event"
	case strings.HasPrefix(subject, "$JS.ACK."):
		return "ack of " + stream.FindString(subject)
	case strings.HasPrefix(subject, "$JS.API.DIRECT.GET."):
		return "read " + t[4]
	case strings.HasPrefix(subject, "$JS.API."):
		return strings.Join(t[2:min(len(t), 6)], ".")
	case t[0] == "station":
		return t[len(t)-1]
	}
	return strings.Join(t[:2], ".")
}

func (tr *traffic) counted() map[string]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return maps.Clone(tr.count)
}

// TestTraffic holds how many messages a turn sends through the server: they are most of what a turn costs.
func TestTraffic(t *testing.T) {
	t.Parallel()
	dir, mark := t.TempDir(), &marker{marks: map[string]int{}}
	cfg, err := upConfig(dir, mark)
	if err != nil {
		t.Fatal(err)
	}
	const short, long = 10, 40
	for _, turns := range []int{short, long} {
		script := fmt.Sprintf("turns:\n  - when: {turn: {from: 1, to: %d}}\n    calls:\n      - {name: mark, input: {n: \"{{turn}}\"}}\n  - text: marked\n", turns)
		agent := fmt.Sprintf("---\nname: marks%d\ndescription: A test agent\nversion: 1\nmodel: scripted/marks%d\ntools: [mark]\nharness:\n  enabled: true\n  timeout: 5m\nsandbox:\n  mode: host\n  network: true\n---\nDo the task.\n", turns, turns)
		for path, text := range map[string]string{fmt.Sprintf("scripts/marks%d.yaml", turns): script, fmt.Sprintf("agents/marks%d.prompt", turns): agent} {
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	tr := &traffic{count: map[string]int{}}
	st, err := station.Up(within(t), cfg.Tap(tr.of))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close(context.Background()) })
	c, err := operator.On(st.Conn(), "default")
	if err != nil {
		t.Fatal(err)
	}
	// one returns what a run of so many turns sends.
	one := func(id string, turns int) map[string]int {
		before := tr.counted()
		if _, err := c.Start(within(t), events.Task{ID: id, Agent: fmt.Sprintf("marks%d", turns), Task: "x"}); err != nil {
			t.Fatal(err)
		}
		var s run.State
		until(t, "the end of "+id, 5*time.Minute, func() bool {
			s, err = c.State(within(t), id)
			return err == nil && s.Status.Ended()
		})
		if s.Status != events.Completed {
			t.Fatalf("run %s is %s: %+v", id, s.Status, s.Result)
		}
		sent := map[string]int{}
		for what, n := range tr.counted() {
			if n != before[what] {
				sent[what] = n - before[what]
			}
		}
		return sent
	}
	one("warm", short)
	a, b := one("short", short), one("long", long)
	t.Logf("a run of %d turns: %v", short, a)
	t.Logf("a run of %d turns: %v", long, b)
	// What a turn of four events sends. The rest is of the whole run, or of the time that it takes: a run that takes
	// long may save its checkpoint as a snapshot, which is an event more in either run.
	for _, c := range []struct {
		what        string
		least, most float64
	}{
		{"to the server: event", 3.9, 4.1},
		{"to the roles: stream", 3.9, 4.1},
		{"to the server: live", 1, 1},
		{"to the roles: event", 0, 0},
		{"to the server: ack of LOG_default", 0, 0},
		{"to the server: CONSUMER.MSG.NEXT.LOG_default", 0, 0},
		{"to the server: read LOG_default", -0.5, 0.5},
		{"to the server: $KV.harness-state", -0.5, 1},
		{"to the roles: answer", 0, 20},
	} {
		if got := float64(b[c.what]-a[c.what]) / (long - short); got < c.least || got > c.most {
			t.Errorf("%s: got %.2f a turn, want %v to %v", c.what, got, c.least, c.most)
		}
	}
}
