//go:build slow

package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/jet/userkey"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/gateway"
	"github.com/inspan/inspan/services/gateway/tokens"
)

// playwright is what drives the browser, from the npm registry into a folder of the test.
const playwright = "playwright-core@1.57.0"

// payload is what a hostile model and tool write.
const payload = `<img src=x onerror=\"window.pwned=1\"><script>window.pwned=2</script><a href=\"javascript:window.pwned=3\">x</a> javascript:window.pwned=4 https://example.com/?q=1`

func agent(name, more string) string {
	return "---\nname: " + name + "\ndescription: A test agent\nversion: 1\nmodel: scripted/" + name +
		"\ntools: [bash, read]\nharness: {enabled: true}\n" + more + "sandbox: {mode: host, network: true}\n---\nDo the task.\n"
}

const asks = "guards:\n  - {id: touch, tool: bash, match: {argv: [touch, \"**\"]}, action: ask, reason: files are made by people}\n"

var files = map[string]string{
	"agents/maker.prompt": agent("maker", asks),
	"scripts/maker.yaml": "turns:\n  - when: {turn: 1}\n    delay: 1500ms\n    chunk: 10\n    text: \"I look around. " + payload + "\"\n    calls:\n" +
		"      - {name: bash, input: {command: \"echo '" + strings.ReplaceAll(payload, `\"`, "") + "'\"}}\n" +
		"  - when: {turn: 2}\n    text: I make the file.\n    calls:\n      - {name: bash, input: {command: \"touch made.txt\"}}\n" +
		"  - when: {turn: 3}\n    text: \"It is done: {{result.1}}\"\n",
	"agents/fixer.prompt": strings.ReplaceAll(agent("fixer", "guards:\n  - {id: edits, tool: edit, match: {path: \"*.go\"}, action: ask, reason: a person looks at each change}\n"),
		"[bash, read]", "[bash, read, edit, artifact_save]"),
	"scripts/fixer.yaml": `turns:
  - when: {turn: 1}
    text: I run the tests to see what fails.
    calls:
      - name: bash
        input: {command: "printf 'package price\n\n// Total is what is paid, in cents.\nfunc Total(unit, count, percent int) int {\n\treturn unit * count * percent / 100\n}\n' > price.go; echo 'ok  example.com/shop/cart'; echo '--- FAIL: TestTotal: got 1049, want 1050'"}
    usage: {input: 1840, output: 62}
  - when: {turn: 2}
    text: "The total is cut off where it must be rounded: Total divides integers. I round half up."
    calls:
      - name: edit
        input:
          path: price.go
          old_string: "\treturn unit * count * percent / 100"
          new_string: "\t// round half up: a fraction of a cent is not lost\n\treturn (unit*count*percent + 50) / 100"
    usage: {input: 2310, output: 118}
  - when: {turn: 3}
    text: I keep the file as the result.
    calls:
      - {name: artifact_save, input: {path: price.go}}
    usage: {input: 2600, output: 40}
  - when: {turn: 4}
    text: Total rounds half up now. The tests pass.
    usage: {input: 2700, output: 30}
`,
	"agents/slow.prompt": agent("slow", ""),
	"scripts/slow.yaml": "turns:\n  - when: {turn: 1}\n    text: Once.\n    calls:\n      - {name: bash, input: {command: \"echo begun; sleep 4; echo one\"}}\n" +
		"  - when: {turn: 2}\n    text: Twice.\n    calls:\n      - {name: bash, input: {command: \"sleep 1; echo two\"}}\n  - when: {turn: 3}\n    text: All done.\n",
}

// world is a station with a gateway that can be started again at the same address.
type world struct {
	t       *testing.T
	dir     string
	still   bool
	address string
	st      *station.Station
	client  *client.Client
	token   string
	down    func()
}

// writeFiles writes the agents and scripts into a folder.
func writeFiles(t *testing.T, dir string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func newWorld(t *testing.T, still bool) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), still: still, address: "127.0.0.1:0"}
	writeFiles(t, w.dir)
	secret, digest := tokens.New()
	if _, err := tokens.Change(filepath.Join(w.dir, tokens.File), func(l tokens.List) (tokens.List, error) {
		return l.With(tokens.Token{Name: "browser", Digest: digest, Scopes: tokens.Scopes(), Added: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	w.token = secret
	w.up()
	t.Cleanup(func() { w.down() })
	return w
}

// up starts the station and its gateway.
func (w *world) up() {
	w.t.Helper()
	base, err := service.FromEnv()
	if err != nil {
		w.t.Fatal(err)
	}
	base.SandboxReaches = true // a sandbox is not what is tested
	ctx := context.Background()
	w.st, err = station.Up(ctx, station.Config{StoreDir: filepath.Join(w.dir, "store"), AgentsDir: filepath.Join(w.dir, "agents"),
		ScriptsDir: filepath.Join(w.dir, "scripts"), Sandbox: "host", LazySync: true, Console: true, Still: w.still, Log: zerolog.Nop(),
		Base: base})
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := station.Gateway(ctx, w.st)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.client, err = operator.On(conn, w.st.Name()); err != nil {
		w.t.Fatal(err)
	}
	rights := map[tokens.Scope]topology.Right{tokens.Read: topology.MayWatch, tokens.Write: topology.MayDispatch,
		tokens.Answer: topology.MayApprove}
	consoles := station.Consoles(w.st)
	g, err := gateway.New(gateway.Config{Client: w.client, Tokens: tokens.Follow(filepath.Join(w.dir, tokens.File)).Now, Rate: 1000,
		Console: &gateway.Console{Address: consoles.Address, UserCookie: topology.UserCookie, PasswordCookie: topology.PasswordCookie,
			About: gateway.ConsoleAbout{Station: w.st.Name(), State: topology.StateBucket, Files: topology.FilesBucket, Version: "test"},
			Login: func(scopes []tokens.Scope) (user, password string) {
				var may []topology.Right
				for _, s := range scopes {
					may = append(may, rights[s])
				}
				return consoles.Login(may...)
			}}})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.address = l.Addr().String()
	serving, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(serving, l) }()
	w.down = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		if err := w.st.Close(ctx); err != nil {
			w.t.Error(err)
		}
	})
}

// browser is a program that uses the console and asks for what only the station can do.
func (w *world) browse(script string, env map[string]string, answer func(ask string) string) {
	w.t.Helper()
	for _, need := range []string{"node", "npm", "chromium"} {
		if _, err := exec.LookPath(need); err != nil {
			w.t.Fatalf("%s is not here: apt-get install chromium nodejs npm", need)
		}
	}
	modules := filepath.Join(os.TempDir(), "inspan-console-"+strings.ReplaceAll(playwright, "@", "-"))
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "playwright-core")); err != nil {
		if out, err := exec.CommandContext(w.t.Context(), "npm", "install", "--no-audit", "--no-fund", "--prefix", modules, playwright).CombinedOutput(); err != nil {
			w.t.Fatalf("npm install %s: %v\n%s", playwright, err, out)
		}
	}
	pictures := os.Getenv("INSPAN_CONSOLE_PICTURES")
	if pictures == "" {
		pictures = w.t.TempDir()
	}
	here, err := filepath.Abs("drive.mjs")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", here, script)
	cmd.Env = append(os.Environ(), "MODULES="+modules, "URL=http://"+w.address+"/", "TOKEN="+w.token, "PICTURES="+pictures)
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	passed := 0
	for lines.Scan() {
		kind, text, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "ask":
			if _, err := io.WriteString(in, answer(text)+"\n"); err != nil {
				w.t.Error(err)
			}
		case "ok":
			passed++
			w.t.Run(text, func(*testing.T) {}) // the script went through it
		case "bad":
			w.t.Run(text, func(t *testing.T) { t.Error(text) })
		default:
			w.t.Log(lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		w.t.Error(err)
	}
	if err := cmd.Wait(); err != nil || passed == 0 {
		w.t.Errorf("the browser: %v after %d checks", err, passed)
	}
}

// start starts a run.
func (w *world) start(t events.Task) string {
	w.t.Helper()
	id, err := w.client.Start(w.t.Context(), t)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// until folds a run until a state is there, as JSON for the script.
func (w *world) until(id string, want func(run.State) bool) run.State {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for item, err := range w.client.Watch(ctx, id, 0) {
		if err != nil {
			w.t.Errorf("run %s: %v", id, err)
			return item.State
		}
		if want(item.State) {
			return item.State
		}
	}
	s, err := w.client.State(w.t.Context(), id)
	if err != nil || !want(s) {
		w.t.Errorf("run %s ended as %s without what was waited for: %v", id, s.Status, err)
	}
	return s
}

func TestConsole(t *testing.T) {
	w := newWorld(t, false)
	w.browse("use", nil, func(ask string) string {
		verb, id, _ := strings.Cut(ask, " ")
		switch verb {
		case "start":
			if id == "fixer" {
				return w.start(events.Task{Agent: id, Task: "Find out why TestTotal fails and fix it", Stream: true, Session: "shop"})
			}
			return w.start(events.Task{Agent: id, Task: "make a file " + strings.ReplaceAll(payload, `\"`, `"`), Stream: true})
		case "restart":
			w.down()
			w.up()
			return "up"
		case "gate": // what became of the last gate of a run
			s := w.until(id, func(s run.State) bool { return len(s.Gates) > 0 && s.Gates[len(s.Gates)-1].Status != run.GatePending })
			g := s.Gates[len(s.Gates)-1]
			return fmt.Sprintf("%s by %s: %s", g.Status, g.By, g.Reason)
		case "assurance":
			for item, err := range w.client.Events(t.Context(), id, 0) {
				if err != nil {
					t.Error(err)
				}
				if d, ok := item.Payload.(*events.GateApprovedData); ok {
					return string(d.Assurance)
				}
			}
			return "no answer"
		case "end":
			s := w.until(id, func(s run.State) bool { return s.Status.Ended() })
			return fmt.Sprintf("%s %d", s.Status, s.Sequence)
		case "paused":
			return string(w.until(id, func(s run.State) bool { return s.Status == events.Paused }).Status)
		case "user":
			seed, public, err := userkey.New()
			if err != nil {
				t.Fatal(err)
			}
			list, err := userlist.Change(filepath.Join(w.dir, "store"), func(l userlist.List) (userlist.List, error) {
				return l.With(userlist.User{Name: "ada", Key: public, May: []topology.Right{topology.MayDispatch, topology.MayWatch, topology.MayApprove}})
			})
			if err != nil || !slices.Contains(list.Names(), "ada") {
				t.Fatal(list, err)
			}
			return string(seed)
		}
		t.Errorf("the script asks %q", ask)
		return ""
	})
}

const many = 10000

// TestHelp reads the documents in the console.
func TestHelp(t *testing.T) {
	w := newWorld(t, true)
	w.browse("help", nil, func(string) string { return "" })
}

func TestManyRuns(t *testing.T) {
	w := newWorld(t, true)
	fill(t, w)
	w.browse("many", map[string]string{"MANY": fmt.Sprint(many)}, func(string) string { return "" })
}

// fill writes rows of many runs, and the log of one with as many turns, as the services would.
func fill(t *testing.T, w *world) {
	t.Helper()
	begin := time.Now().Add(-time.Hour)
	at := func(role events.Service) *jet.Station {
		conn, err := w.st.As(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		st, err := conn.Station(w.st.Name())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	rows := at(events.Persister).KV(topology.StateBucket)
	var writing sync.WaitGroup
	for part := range 16 {
		writing.Go(func() {
			for i := part; i < many; i += 16 {
				b, err := json.Marshal(run.Info{HarnessID: fmt.Sprintf("run-%05d", i), AgentName: []string{"fixer", "writer", "reviewer"}[i%3],
					Task: fmt.Sprintf("task number %d of many that a station was given", i), Status: []events.Status{events.Completed, events.Failed, events.Running}[i%3],
					Turns: i % 50, InputTokens: 1000 * i, CreatedAt: begin.Add(time.Duration(i) * 100 * time.Millisecond), UpdatedAt: begin, Sequence: 9})
				if err == nil {
					err = rows.Put(t.Context(), fmt.Sprintf("run.run-%05d", i), b)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	executor, planner := at(events.Executor).Journal(), at(events.Planner).Journal()
	head := uint64(0)
	put := func(j kernel.Journal, n uint64, p events.Payload) {
		f := events.Event{ID: fmt.Sprintf("%032d", n), Sequence: n, Time: begin.Add(time.Duration(n) * time.Second)}
		kind, b, err := encode(f, p)
		if err != nil {
			t.Fatal(err)
		}
		ack := j.Append(t.Context(), kernel.Entry{ID: "long", Kind: kind, Bytes: b, Head: head})
		if ack.Outcome != kernel.Stored {
			t.Fatal(ack.Outcome, ack.Err)
		}
		head = ack.Seq
	}
	put(planner, 1, &events.RunStartedData{AgentID: "fixer", AgentName: "fixer", Task: "a very long task", From: events.Created, To: events.Running})
	for i := range many {
		put(executor, uint64(i+2), &events.TurnFinishedData{Step: "step-1", Turn: i + 1, Text: fmt.Sprintf("turn %d: ", i+1) + strings.Repeat("words ", 60),
			InputTokens: 1000, OutputTokens: 100, FinishReason: "stop", Model: "test"})
	}
	writing.Wait()
}

// encode is an event as the services store it.
func encode(f events.Event, p events.Payload) (events.Kind, []byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", nil, err
	}
	f.SpecVersion, f.ContentType, f.Data = "1.0", "application/json", data
	b, err := json.Marshal(f)
	return p.Kind(), b, err
}
