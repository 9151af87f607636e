package station_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// critical is a plan whose second step opens a gate.
func critical() *events.TaskPlan {
	return &events.TaskPlan{Steps: []events.TaskStep{{ID: "one", Description: "first"}, {ID: "two", Description: "second", Needs: []string{"one"}, Critical: true}}}
}

// gate waits until a gate of a run is open in the log and returns it.
func (o *outage) gate(id string) (gate string) {
	o.t.Helper()
	until(o.t, "a gate of "+id, time.Minute, func() bool {
		s, err := o.c.State(within(o.t), id)
		if err != nil || len(s.Waiting()) == 0 {
			return false
		}
		gate = s.Waiting()[0].ID
		return true
	})
	return gate
}

func (o *outage) approve(id, gate string) {
	o.t.Helper()
	if _, err := o.c.Gates().Approve(within(o.t), client.Decision{Run: id, Gate: gate, By: "anna"}); err != nil {
		o.t.Fatal(err)
	}
}

func TestOutageAtGate(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	began, leave := make(chan struct{}, 8), make(chan struct{}) // more calls than a run makes
	hold := func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case <-leave:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	begin := func(o *outage, id string) string {
		o.dispatch(events.Task{ID: id, Agent: "marks", Task: "x", Plan: critical()})
		return o.gate(id)
	}
	t.Run("PERS-4 GATE-5 the server goes away while a gate waits: the answer counts once it is back", func(t *testing.T) {
		o := o.on(t)
		gate := begin(o, "waits")
		o.st.Server().Shutdown()
		if kinds := o.branch("waits"); len(kinds) != 0 {
			t.Errorf("something was said while nothing was to do: %v", kinds)
		}
		if _, err := o.c.Dispatch(within(t), events.Task{ID: "never", Agent: "marks", Task: "x"}); err == nil {
			t.Error("a task was taken although no one keeps it")
		}
		o.back()
		o.approve("waits", gate)
		o.completed("waits", 4, 0)
	})
	t.Run("PERS-4 PERS-5 GATE-5 a gate that opens while the server is away waits, comes home and is answered there", func(t *testing.T) {
		o := o.on(t)
		o.mark.set(hold)
		o.dispatch(events.Task{ID: "opens", Agent: "marks", Task: "x", Plan: critical()})
		<-began
		o.st.Server().Shutdown()
		leave <- struct{}{}
		<-began
		leave <- struct{}{}
		until(t, "a gate in the local store", 5*time.Minute, func() bool {
			b := o.branch("opens")
			return len(b) > 0 && b[len(b)-1] == events.GateOpened
		})
		o.mark.set(nil)
		o.back()
		o.approve("opens", o.gate("opens"))
		o.completed("opens", 4, 1)
	})
	t.Run("PERS-4 GATE-5 SAFE-4 the server goes away as soon as it has the answer: it is not lost and counts once", func(t *testing.T) {
		o := o.on(t)
		gate := begin(o, "answered")
		st, err := o.st.Conn().Station("default")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Publish(within(t), events.GateSubject("default", "answered", gate), []byte(`{"decision":"approve","by":"anna"}`), nil); err != nil {
			t.Fatal(err)
		}
		o.st.Server().Shutdown()
		o.back()
		if s := o.completed("answered", 4, -1); s.Gate(gate).By != "anna" {
			t.Errorf("%+v", s.Gate(gate))
		}
	})
}

// childDir names the folder of the station that the child process of TestOutageKilled runs.
const childDir = "INSPAN_TEST_STATION_DIR"

// TestMain is the child where it is told to be one: a station that says when a call began, and lets it end, stops the
// server or starts it again when told to.
func TestMain(m *testing.M) {
	if runtimetest.Main() {
		return
	}
	dir := os.Getenv(childDir)
	if dir == "" {
		m.Run() // its code becomes that of the program
		return
	}
	if err := child(dir); err != nil {
		fmt.Println("error", err)
	}
}

func child(dir string) error {
	leave := make(chan struct{})
	mark := &marker{marks: map[string]int{}, hold: func(ctx context.Context) error {
		f, err := os.OpenFile(filepath.Join(dir, "marks"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString("mark\n")
		fmt.Println("began")
		<-leave
		return err
	}}
	cfg, err := upConfig(dir, mark)
	if err != nil {
		return err
	}
	st, err := station.Up(context.Background(), cfg)
	if err != nil {
		return err
	}
	fmt.Println("up", st.URL())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "leave":
			leave <- struct{}{}
		case "stop":
			st.Server().Shutdown()
			fmt.Println("stopped")
		case "kept": // the second call has begun, and only the local store knows
			all, err := st.Local().Branches(context.Background(), localstore.BranchOpen)
			fmt.Println("kept", len(all), err)
		}
	}
	return nil
}

// process is a child.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), childDir+"="+dir)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// says waits for a line that begins with a word and returns the rest of it.
func (p *process) says(word string) string {
	p.t.Helper()
	var all []string
	for p.out.Scan() {
		first, rest, _ := strings.Cut(p.out.Text(), " ")
		if first == word {
			return rest
		}
		all = append(all, p.out.Text())
	}
	p.t.Fatalf("the child never said %q, but %q", word, all)
	return ""
}

func (p *process) tell(word string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, word); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // SIGKILL
	_ = p.cmd.Wait()         // killed
}

func TestOutageKilled(t *testing.T) {
	t.Parallel()
	t.Run("PERS-4 PERS-5 PERS-15 SAFE-4 killed on the fallback, started while the log cannot be had and once more with it: one sound log, no effect twice", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		p := start(t, dir)
		c := dial(t, p.says("up"))
		if _, err := c.Start(within(t), events.Task{ID: "r", Agent: "marks", Task: "x"}); err != nil {
			t.Fatal(err)
		}
		p.says("began")
		p.tell("stop")
		p.says("stopped")
		p.tell("leave")
		p.says("began") // the second call: only the local store knows that the first has ended
		p.tell("kept")
		if kept := p.says("kept"); kept != "1 <nil>" {
			t.Fatalf("branches: %s", kept)
		}
		p.kill()

		streams, aside := filepath.Join(dir, "store", "nats"), filepath.Join(dir, "aside")
		if err := os.Rename(streams, aside); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(streams, nil, 0o400); err != nil {
			t.Fatal(err)
		}
		p = start(t, dir)
		if why := p.says("error"); !strings.Contains(why, "nats") {
			t.Errorf("without its log the station says %q", why)
		}
		p.kill()
		if err := os.Remove(streams); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, streams); err != nil {
			t.Fatal(err)
		}

		p = start(t, dir)
		defer p.kill()
		c = dial(t, p.says("up"))
		var s run.State
		n := map[events.Kind]int{}
		for item, err := range c.Watch(within(t), "r", 0) {
			if err != nil {
				t.Fatal(err)
			}
			s = item.State
			n[item.Payload.Kind()]++
		}
		if s.Status != events.Completed || n[events.CallStarted] != 2 || n[events.CallFinished] != 1 || n[events.CallFailed] != 1 || n[events.CheckpointFallback] != 1 {
			t.Errorf("%s, %v", s.Status, n)
		}
		if r, err := operator.Audit(within(t), c, "r", operator.Trust{}); err != nil || !r.Sound {
			t.Errorf("audit: %v, %+v", err, r.First)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "marks")); err != nil || string(b) != "mark\nmark\n" {
			t.Errorf("marks %q, %v", b, err)
		}
	})
}

func dial(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.Connect(within(t), client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
