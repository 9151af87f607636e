package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/program"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/all"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

const name = "bench"

// bed is a server process, or several, and once started five roles.
type bed struct {
	dir      string
	children []*exec.Cmd
	url      string
	user     *jet.Conn
	st       *jet.Station
	whole    *station.Station
	// broken ends, with the reason, when a role of whole fails; nil where there is none.
	broken context.Context
	conns  []*jet.Conn
	cancel context.CancelFunc
	roles  sync.WaitGroup
	how    how
	// rounds counts the rounds of this bed, so that each has run ids of its own.
	rounds int
}

// how the services are connected and the server writes.
type how struct {
	// lazy leaves syncing to the server's timer.
	lazy bool
	// split gives each role a connection and memory of its own, as five programs have; else they share, as in one.
	split bool
	// single sends each append alone.
	single bool
	// disk leaves it to the server to gather batches on its disk.
	disk bool
	// up is a station in this process with everything that inspan up has: users of their own, a local store behind it.
	up bool
	// nodes is the number of servers, which is also that of replicas; 0 is one.
	nodes int
}

func newBed(ctx context.Context, h how) (*bed, error) {
	dir, err := os.MkdirTemp("", "inspan-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{dir: dir, how: h}
	if h.up {
		return b, nil // start does it all
	}
	if err := b.serve(max(1, h.nodes)); err != nil {
		b.close()
		return nil, err
	}
	if b.user, err = b.connect(ctx); err != nil {
		b.close()
		return nil, err
	}
	setup, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := b.user.Setup().Apply(setup, name, jet.ApplyOptions{Replicas: h.nodes}); err != nil {
		b.close()
		return nil, err
	}
	if b.st, err = b.user.Station(name); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// serve starts the servers, each a process.
func (b *bed) serve(nodes int) error {
	var routes []string
	if nodes > 1 {
		for range nodes {
			port, err := freePort()
			if err != nil {
				return err
			}
			routes = append(routes, port)
		}
	}
	var outs []*bufio.Reader
	for i := range nodes {
		args := []string{"-serve", "127.0.0.1:0", "-store", filepath.Join(b.dir, fmt.Sprintf("nats%d", i+1))}
		if b.how.lazy {
			args = append(args, "-lazy")
		} else if nodes == 1 && !b.how.disk {
			args = append(args, "-staged")
		}
		if nodes > 1 {
			args = append(args, "-node", fmt.Sprint(i+1), "-routes", strings.Join(routes, ","))
		}
		child := exec.Command(os.Args[0], args...)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			return err
		}
		if err := child.Start(); err != nil {
			return err
		}
		b.children = append(b.children, child)
		outs = append(outs, bufio.NewReader(out))
	}
	var urls []string
	for _, out := range outs {
		line, err := out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		urls = append(urls, strings.TrimSpace(line))
	}
	b.url = strings.Join(urls, ",")
	return nil
}

// freePort returns an address on which no one listens at the moment.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (b *bed) connect(ctx context.Context) (*jet.Conn, error) {
	c, err := jet.Connect(ctx, jet.Config{URL: b.url, Name: name})
	if err == nil {
		switch {
		case b.how.lazy || b.how.single || b.how.nodes > 1:
		case b.how.disk:
			c.GroupAppends(jet.GroupOnDisk)
		default:
			c.GroupAppends(jet.GroupInMemory)
		}
		b.conns = append(b.conns, c)
	}
	return c, err
}

// nothing is the trivial tool of the measurements: 200 bytes and no work.
type nothing struct{}

func (nothing) Spec() tool.Spec {
	return tool.Spec{Name: "nothing", Description: "does nothing", Effect: tool.Once,
		Input: json.RawMessage(`{"type":"object"}`)}
}

func (nothing) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Output: strings.Repeat("r", 200)}, nil
}

// start runs the five roles with an agent whose model answers at once: 1 KB of text and one call, for turns turns.
func (b *bed) start(ctx context.Context, turns int) error {
	script := fmt.Sprintf("turns:\n  - when: {turn: {from: 1, to: %d}}\n    text: \"%s\"\n    chunk: 2000\n    usage: {input: 1000, output: 250}\n    calls:\n      - {name: nothing, input: {n: \"{{turn}}\"}}\n  - text: done\n", turns, strings.Repeat("t", 1024))
	if err := os.MkdirAll(filepath.Join(b.dir, "scripts"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "scripts", "worker.yaml"), []byte(script), 0o644); err != nil {
		return err
	}
	agent, err := json.Marshal(events.Agent{Name: "worker", Digest: strings.Repeat("0", 64), Model: "scripted/worker",
		Tools: []string{"nothing"}, Prompt: "Work.", MaxSteps: turns + 1, MaxToolCalls: turns})
	if err != nil {
		return err
	}
	if b.how.up {
		return b.startUp(ctx, agent)
	}
	cfg := service.Config{Base: service.Base{Station: name}, Workspaces: service.Workspaces{Workspace: filepath.Join(b.dir,
		"work")}, Models: service.Models{Scripts: filepath.Join(b.dir, "scripts")},
		Sandboxes: service.Sandboxes{Sandbox: "host", SandboxReaches: true}}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	var host *all.Host
	for _, role := range events.Services() {
		if host == nil || b.how.split {
			if host, err = b.host(ctx, cfg, agent); err != nil {
				return err
			}
		}
		here := host
		b.roles.Go(func() {
			if err := here.Run(run, role); err != nil && run.Err() == nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			}
		})
	}
	return nil
}

// startUp starts a station as inspan up does, in this process.
func (b *bed) startUp(ctx context.Context, agent []byte) (err error) {
	b.whole, err = station.Up(ctx, station.Config{StoreDir: filepath.Join(b.dir, "store"), Station: name,
		ScriptsDir: filepath.Join(b.dir, "scripts"),
		Sandbox:    "host", LazySync: b.how.lazy, Tools: []tool.Tool{nothing{}}, Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	broken, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	b.broken, b.cancel = broken, func() { fail(nil) }
	b.roles.Go(func() {
		select {
		case err := <-b.whole.Failed():
			fail(err)
		case <-broken.Done():
		}
	})
	b.user = b.whole.Conn()
	if b.st, err = b.user.Station(name); err != nil {
		return err
	}
	return b.whole.Administer(ctx, func(c *jet.Conn) error {
		st, err := c.Station(name)
		if err != nil {
			return err
		}
		return st.KV(topology.ConfigBucket).Put(ctx, "agent.worker", agent)
	})
}

// host is what one program has: a connection and the states it keeps in memory.
func (b *bed) host(ctx context.Context, cfg service.Config, agent []byte) (*all.Host, error) {
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	st, err := conn.Station(name)
	if err != nil {
		return nil, err
	}
	ports := all.Ports{Ports: program.Ports(st, "bench")}
	if err := ports.Config.Put(ctx, "agent.worker", agent); err != nil {
		return nil, err
	}
	return all.NewHost(cfg, ports, zerolog.Nop(), service.NewMetrics(), nothing{})
}

func (b *bed) close() {
	if b.cancel != nil {
		b.cancel()
		b.roles.Wait()
	}
	if b.whole != nil {
		_ = b.whole.Close(context.Background()) // its folder goes too
	}
	for _, c := range b.conns {
		c.Close()
	}
	for _, child := range b.children {
		_ = child.Process.Signal(syscall.SIGTERM) // it may be gone
	}
	for _, child := range b.children {
		_ = child.Wait()
	}
	_ = os.RemoveAll(b.dir)
}

func (b *bed) dispatch(ctx context.Context, t events.Task) error {
	t.Agent, t.Task = "worker", "work"
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return b.st.Publish(ctx, events.TaskSubject(name), body, nil)
}

// usage is CPU and memory of this process and the servers.
type usage struct {
	cpu time.Duration
	rss float64
}

func (b *bed) usage() usage {
	var self syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self) // it cannot fail with these arguments
	u := usage{cpu: time.Duration(self.Utime.Nano() + self.Stime.Nano()), rss: peak("self")}
	for _, child := range b.children {
		pid := fmt.Sprint(child.Process.Pid)
		u.rss += peak(pid)
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil {
			fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
			var utime, stime int64
			_, _ = fmt.Sscan(fields[11]+" "+fields[12], &utime, &stime)
			u.cpu += time.Duration(utime+stime) * 10 * time.Millisecond // 100 ticks a second on Linux
		}
	}
	return u
}

// peak is the largest resident size so far, in MiB.
func peak(pid string) float64 {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for _, l := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(l, "VmHWM:"); ok {
			var kb float64
			_, _ = fmt.Sscan(rest, &kb)
			return kb / 1024
		}
	}
	return 0
}

// events returns a run's whole log.
func (b *bed) events(ctx context.Context, id string) ([]kernel.Record, error) {
	var all []kernel.Record
	after := uint64(0)
	for {
		batch, more, err := b.st.Journal().Read(ctx, id, after)
		if err != nil {
			return nil, err
		}
		all = append(all, batch...)
		if !more {
			return all, nil
		}
		after = all[len(all)-1].Seq
	}
}

// state folds a run.
func (b *bed) state(ctx context.Context, id string) (run.State, error) {
	evs, err := b.events(ctx, id)
	if err != nil {
		return run.State{}, err
	}
	var s run.State
	for _, r := range evs {
		if s, err = s.Apply(r.Bytes); err != nil {
			return s, err
		}
	}
	return s, nil
}
