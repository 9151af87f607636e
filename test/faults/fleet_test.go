//go:build slow

// Package faults is the fault programme on real processes: five services in two replicas, three NATS servers, and
// wires between them that can be cut (make faults).
//
// Promises: every fault is bounded and drawn from one seed, which is printed. What is promised is checked from outside:
// from the log of each replica, the journal of effects that the tools kept, and what clients were told. What could not
// be tried on this machine is said in the report and never passed over.
package faults

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/test/faults/effects"
)

const stationName = "faults"

// ports are handed out below those that the kernel gives to connections, so that a server finds its own again.
var ports = struct {
	sync.Mutex
	next int
}{next: 15000 + os.Getpid()%5000}

func freePort(t *testing.T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 2000 {
		ports.next++
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports.next))
		if err == nil {
			l.Close()
			return ports.next
		}
	}
	t.Fatal("no free port found")
	return 0
}

// binEnv names a folder with the programs, built before; without it they are built.
const binEnv = "INSPAN_FAULTS_BIN"

// binaries builds the programs once and returns their folder.
func binaries(t *testing.T, more ...string) string {
	t.Helper()
	if dir := os.Getenv(binEnv); dir != "" {
		return dir
	}
	dir := t.TempDir()
	cmd := exec.Command("go", append([]string{"build", "-o", dir + string(filepath.Separator), "github.com/nats-io/nats-server/v2",
		"github.com/inspan/inspan/test/faults/hand", "github.com/inspan/inspan/cmd/planner", "github.com/inspan/inspan/cmd/persister"}, more...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

// node is a NATS server of a fleet.
type node struct {
	name, store, conf           string
	client, monitor, membership int
}

func (n *node) address() string { return fmt.Sprintf("127.0.0.1:%d", n.client) }
func (n *node) monitorURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d", n.monitor)
}

// fleet is processes and the wires between them.
type fleet struct {
	t        *testing.T
	bin, dir string
	net      *network
	nodes    []*node
	// plain has every service be the program of cmd; else those that know tools are test/faults/hand.
	plain bool
	// env is added to the environment of a service; nil adds nothing.
	env func(name string) []string
	// services are the names of the service processes: "planner.1".
	services []string
	watch    sync.WaitGroup

	mu sync.Mutex
	// procs and exits, guarded by mu.
	procs map[string]*process
	exits []exit
}

// process is one life of a program that is kept alive.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{}
	// wanted is false once its end was asked for, guarded by fleet.mu.
	wanted bool
}

// exit is an end that no one asked for.
type exit struct {
	name, words string
	at          time.Time
}

// fleetConfig says what a fleet has.
type fleetConfig struct {
	bin string
	// nodes is 1 or 3, replicas the number of processes of each service.
	nodes, replicas int
	// store returns the store folder of a node; nil is a folder of the fleet.
	store func(node string) string
	// sync is the nodes' sync_interval; "" is always. maxStore bounds each node's store where it is set.
	sync, maxStore string
	// services to run; nil is all five.
	services []events.Service
}

// keepEnv names a folder in which the logs and stores of a run of the programme are kept, for whoever looks into one.
const keepEnv = "INSPAN_FAULTS_KEEP"

func folder(t *testing.T) string {
	t.Helper()
	keep := os.Getenv(keepEnv)
	if keep == "" {
		return t.TempDir()
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		t.Fatalf("%s: %v", keepEnv, err)
	}
	dir, err := os.MkdirTemp(keep, filepath.Base(t.Name())+"-")
	if err != nil {
		t.Fatalf("%s: %v", keepEnv, err)
	}
	return dir
}

// newFleet makes the folders and configurations; nothing runs yet.
func newFleet(t *testing.T, cfg fleetConfig) *fleet {
	t.Helper()
	f := &fleet{t: t, bin: cfg.bin, dir: folder(t), net: newNetwork(t), procs: map[string]*process{}}
	for _, d := range []string{"agents", "scripts", "work", "logs", "effects"} {
		if err := os.MkdirAll(filepath.Join(f.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range cfg.nodes {
		n := &node{name: fmt.Sprintf("n%d", i+1), client: freePort(t), monitor: freePort(t), membership: freePort(t)}
		n.store, n.conf = filepath.Join(f.dir, n.name), filepath.Join(f.dir, n.name+".conf")
		if cfg.store != nil {
			n.store = cfg.store(n.name)
		}
		f.nodes = append(f.nodes, n)
	}
	for _, n := range f.nodes {
		f.configure(n, cfg)
	}
	if cfg.services == nil {
		cfg.services = events.Services()
	}
	for i := range cfg.replicas {
		for _, s := range cfg.services {
			f.services = append(f.services, fmt.Sprintf("%s.%d", s, i+1))
		}
	}
	t.Cleanup(f.end)
	return f
}

// configure writes the configuration of a node.
func (f *fleet) configure(n *node, cfg fleetConfig) {
	if cfg.sync == "" {
		cfg.sync = "always"
	}
	if cfg.maxStore == "" {
		cfg.maxStore = "4GB"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %s\nhost: 127.0.0.1\nport: %d\nhttp: 127.0.0.1:%d\n", n.name, n.client, n.monitor)
	fmt.Fprintf(&b, "jetstream {\n  store_dir: %q\n  sync_interval: %s\n  max_file_store: %s\n}\n", n.store, cfg.sync, cfg.maxStore)
	if len(f.nodes) > 1 {
		// What a server says of its own address leads nowhere, so that it is reached over the wires only.
		fmt.Fprintf(&b, "cluster {\n  name: faults\n  host: 127.0.0.1\n  port: %d\n  no_advertise: true\n  advertise: \"127.0.0.1:9\"\n  pool_size: -1\n  routes: [\n", n.membership)
		for _, other := range f.nodes {
			if other != n {
				fmt.Fprintf(&b, "    \"nats-route://%s\"\n", f.net.link(n.name, other.name, fmt.Sprintf("127.0.0.1:%d", other.membership)))
			}
		}
		b.WriteString("  ]\n}\n")
	}
	if err := os.WriteFile(n.conf, []byte(b.String()), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) write(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// url lists the addresses at which a part reaches the nodes, the given one first.
func (f *fleet) url(part string, first int) string {
	var urls []string
	for i := range f.nodes {
		n := f.nodes[(first+i)%len(f.nodes)]
		urls = append(urls, "nats://"+f.net.link(part, n.name, n.address()))
	}
	return strings.Join(urls, ",")
}

// start begins a process and keeps it alive as a platform does: one that ends unasked is noted and begun again.
func (f *fleet) start(name string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.startLocked(name)
}

// again is how long a platform waits before it begins a process again.
const again = 500 * time.Millisecond

func (f *fleet) startLocked(name string) {
	cmd := f.command(name)
	log, err := os.OpenFile(f.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		f.t.Error(err)
		return
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		f.t.Errorf("start %s: %v", name, err)
		return
	}
	p := &process{cmd: cmd, gone: make(chan struct{}), wanted: true}
	f.procs[name] = p
	f.watch.Go(func() {
		_ = cmd.Wait() // what it says is in its log
		close(p.gone)
		f.mu.Lock()
		unasked := p.wanted
		if unasked {
			f.exits = append(f.exits, exit{name: name, words: f.lastWords(name), at: time.Now()})
		}
		f.mu.Unlock()
		if !unasked {
			return
		}
		time.AfterFunc(again, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.procs[name] == p && p.wanted {
				f.startLocked(name)
			}
		})
	})
}

func (f *fleet) log(name string) string { return filepath.Join(f.dir, "logs", name) }

// lastWords of a process.
func (f *fleet) lastWords(name string) string {
	b, _ := os.ReadFile(f.log(name)) // a process without a log said nothing
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

func (f *fleet) command(name string) *exec.Cmd {
	if n := f.node(name); n != nil {
		return exec.Command(filepath.Join(f.bin, "nats-server"), "-c", n.conf)
	}
	role, number, _ := strings.Cut(name, ".")
	first := 0
	if number == "2" {
		first = 1
	}
	monitor := f.nodes[first%len(f.nodes)].monitorURL()
	cmd := exec.Command(filepath.Join(f.bin, "hand"), role)
	if f.plain || role == string(events.Planner) || role == string(events.Persister) { // these know no tools
		cmd = exec.Command(filepath.Join(f.bin, role))
	}
	cmd.Env = append(os.Environ(), "INSPAN_NATS_URL="+f.url(name, first), "INSPAN_NATS_MONITOR="+monitor, "INSPAN_STATION="+stationName,
		"INSPAN_HTTP=", "INSPAN_LOG_LEVEL="+logLevel(), "INSPAN_REPLICAS="+fmt.Sprint(len(f.nodes)), "INSPAN_AGENTS="+filepath.Join(f.dir, "agents"),
		"INSPAN_SCRIPTS="+filepath.Join(f.dir, "scripts"), "INSPAN_WORKSPACE="+filepath.Join(f.dir, "work"), "INSPAN_SANDBOX=host", "INSPAN_SANDBOX_REACHES_STATION=true",
		effects.Dir+"="+filepath.Join(f.dir, "effects"))
	if f.env != nil {
		cmd.Env = append(cmd.Env, f.env(name)...)
	}
	return cmd
}

// logLevel is debug where the logs are kept.
func logLevel() string {
	if os.Getenv(keepEnv) != "" {
		return "debug"
	}
	return "info"
}

func (f *fleet) node(name string) *node {
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return f.nodes[i]
}

// signal sends a signal to a process.
func (f *fleet) signal(name string, s syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.procs[name]; p != nil {
		_ = p.cmd.Process.Signal(s) // it may be gone already
	}
}

// stop ends a process with a signal and waits until it is gone. It is not begun again.
func (f *fleet) stop(name string, s syscall.Signal) {
	f.mu.Lock()
	p := f.procs[name]
	if p != nil {
		p.wanted = false
		_ = p.cmd.Process.Signal(s) // it may be gone already
	}
	f.mu.Unlock()
	if p != nil {
		<-p.gone
	}
}

// pid of a process that runs.
func (f *fleet) pid(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.procs[name].cmd.Process.Pid
}

// end ends all processes.
func (f *fleet) end() {
	f.mu.Lock()
	var names []string
	for name, p := range f.procs {
		p.wanted = false
		names = append(names, name)
	}
	f.mu.Unlock()
	for _, name := range names {
		f.signal(name, syscall.SIGCONT)
		f.stop(name, syscall.SIGKILL)
	}
	f.watch.Wait()
}

// unasked returns the ends that no one asked for.
func (f *fleet) unasked() []exit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.exits)
}

// errors of a log that say that the program itself broke.
func (f *fleet) panics() []string {
	var found []string
	for _, name := range f.services {
		b, _ := os.ReadFile(f.log(name)) // a process without a log said nothing
		for _, mark := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if bytes.Contains(b, []byte(mark)) {
				found = append(found, name+" says "+mark)
			}
		}
	}
	return found
}

// pause waits, or less where ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// until asks again and again whether something holds, and returns false where ctx ends first.
func until(ctx context.Context, holds func() bool) bool {
	for !holds() {
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return false
		}
	}
	return true
}
