package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const natsServer = "github.com/nats-io/nats-server/v2"

// starts is how often a start is measured: the least of many is what the program needs, the rest is the machine. Above
// its limit it is measured up to mostStarts times: a busy machine lets few starts go undisturbed.
const (
	starts     = 15
	mostStarts = 90
)

// settle is how long inspan up is left alone before its memory is read.
const settle = 10 * time.Second

// nothing makes this program one that ends at once.
const nothing = "INSPAN_WEIGHT_NOTHING"

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// measure builds inspan into dir and looks at it.
func measure(ctx context.Context, root, dir string, cold, suite bool) (weight, error) {
	w := weight{machine: fmt.Sprintf("%s, %s/%s, %d cores, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), time.Now().UTC().Format("2006-01-02"))}
	program, err := w.build(ctx, root, dir)
	if err != nil {
		return w, err
	}
	if err := w.sources(ctx, root); err != nil {
		return w, err
	}
	if err := w.start(ctx, program); err != nil {
		return w, err
	}
	if err := w.rest(ctx, program, filepath.Join(dir, "store"), settle); err != nil {
		return w, err
	}
	if cold || suite { // what both are compared with
		if w.natsCold, err = coldBuild(ctx, root, natsServer); err != nil {
			return w, err
		}
	}
	if cold {
		if w.cold, err = coldBuild(ctx, root, "./cmd/inspan"); err != nil {
			return w, err
		}
	}
	if suite {
		if err := w.runSuite(ctx, root); err != nil {
			return w, err
		}
	}
	if cold || suite { // the machine may be slower or faster by now
		again, err := coldBuild(ctx, root, natsServer)
		if err != nil {
			return w, err
		}
		w.natsCold = (w.natsCold + again) / 2
	}
	return w, nil
}

// maxOutput is how much is shown of the end of what failed, in bytes.
const maxOutput = 4 << 10

// runSuite runs make test, whose programs are compiled first.
func (w *weight) runSuite(ctx context.Context, root string) error {
	for _, args := range [][]string{{"go", "vet", "./..."}, {"go", "test", "-run", "^$", "./..."}, {"make", "test"}} {
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Dir, c.Env = root, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -count=1")
		begun := time.Now()
		out, err := c.CombinedOutput()
		if args[0] == "make" && c.ProcessState != nil { // also where a test fails
			w.suite, w.suiteWall = c.ProcessState.UserTime()+c.ProcessState.SystemTime(), time.Since(begun)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out[max(0, len(out)-maxOutput):])
		}
	}
	return nil
}

// build makes a stripped inspan, with the cache that the tests use.
func (w *weight) build(ctx context.Context, root, dir string) (string, error) {
	built, program := filepath.Join(dir, "built"), filepath.Join(dir, "inspan")
	c := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w -dumpdep", "-o", built, "./cmd/inspan")
	c.Dir = root
	var err error
	if w.byName, err = callByName(c); err != nil {
		return "", fmt.Errorf("build inspan: %w", err)
	}
	w.size, err = install(built, program)
	return program, err
}

// callByName runs a build with -dumpdep, where the linker says which function needs which, and finds those that can
// call any method by its name, and for each who needs it. With one of them in a program, the linker leaves out no
// exported method of any type in it. What the linker says is read line by line: it is 30 MB, and Linux counts the
// memory of this process to that of the programs that it starts.
func callByName(build *exec.Cmd) ([]string, error) {
	said, err := build.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := build.Start(); err != nil {
		return nil, err
	}
	var list []string
	var other strings.Builder
	edges := 0
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		from, to, ok := strings.Cut(lines.Text(), " -> ")
		if !ok {
			if other.Len() < maxOutput {
				fmt.Fprintln(&other, lines.Text())
			}
			continue
		}
		edges++
		if name, marked := strings.CutSuffix(to, " <ReflectMethod>"); marked {
			who, _, _ := strings.Cut(from, " <")
			list = append(list, name+", which "+who+" needs")
		}
	}
	if err := errors.Join(lines.Err(), build.Wait()); err != nil {
		return nil, fmt.Errorf("%w: %s", err, other.String())
	}
	if edges < leastEdges {
		return nil, fmt.Errorf("the linker named %d dependencies, want at least %d: see -dumpdep of go tool link", edges,
			leastEdges)
	}
	return list, nil
}

// leastEdges is less than the linker names for any program.
const leastEdges = 1000

// install copies a program in small pieces, as cp and tar do. Of a file that was written in large ones, as the linker
// does, Linux keeps large pages in its cache, and a fault of one page brings all of a large one in.
func install(from, to string) (size int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return 0, err
	}
	size, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 32<<10))
	return size, errors.Join(err, out.Close())
}

// zoneData is one string of 1.3 MB, the time zones for machines that have none. It is data: source stands for what a
// build costs, and this costs it nothing. The size of the program has it.
const zoneData = "time/tzdata"

// sources counts the packages and the bytes of Go that are compiled into inspan and into nats-server.
func (w *weight) sources(ctx context.Context, root string) error {
	var err error
	if w.packages, w.source, w.linked, err = compiled(ctx, root, "./cmd/inspan"); err != nil {
		return err
	}
	w.natsPackages, w.natsSource, _, err = compiled(ctx, root, natsServer)
	return err
}

func compiled(ctx context.Context, root, pkg string) (packages int, source int64, linked []string, err error) {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles", pkg)
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		return 0, 0, nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, source, linked, nil
		} else if err != nil {
			return 0, 0, nil, fmt.Errorf("go list %s: %w", pkg, err)
		}
		packages++
		if reason(p.ImportPath) != "" {
			linked = append(linked, p.ImportPath)
		}
		if p.ImportPath == zoneData {
			continue
		}
		for _, name := range p.GoFiles {
			info, err := os.Stat(filepath.Join(p.Dir, name))
			if err != nil {
				return 0, 0, nil, err
			}
			source += info.Size()
		}
	}
}

// start measures inspan --help beside a program that does nothing, by turns.
func (w *weight) start(ctx context.Context, program string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	for i := 0; i < starts || i < mostStarts && ratio(w.help, w.nothing) > maxHelp; i++ {
		c := exec.CommandContext(ctx, program, "--help")
		c.Env = append(os.Environ(), "GOGC=100")
		help, wall, rss, err := once(c)
		if err != nil {
			return fmt.Errorf("inspan --help: %w", err)
		}
		c = exec.CommandContext(ctx, own)
		c.Env = append(os.Environ(), nothing+"=1", "GOGC=100")
		none, _, _, err := once(c)
		if err != nil {
			return fmt.Errorf("a program that does nothing: %w", err)
		}
		if i == 0 {
			w.help, w.nothing, w.helpWall, w.helpRSS = help, none, wall, rss
		}
		w.help, w.nothing, w.helpWall, w.helpRSS = min(w.help, help), min(w.nothing, none), min(w.helpWall, wall),
			min(w.helpRSS, rss)
	}
	return nil
}

// once runs a program and tells its CPU, its time and its largest resident memory.
func once(c *exec.Cmd) (cpu, wall time.Duration, rss int64, err error) {
	begun := time.Now()
	if err := c.Run(); err != nil {
		return 0, 0, 0, err
	}
	wall = time.Since(begun)
	cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok && runtime.GOOS == "linux" {
		rss = int64(u.Maxrss) << 10 // KiB there; other systems count otherwise
	}
	return cpu, wall, rss, nil
}

// rest starts inspan up, waits until it is up and for a while, and reads its memory.
func (w *weight) rest(ctx context.Context, program, store string, wait time.Duration) (err error) {
	c := exec.CommandContext(ctx, program, "up", "--listen", "127.0.0.1:0", "--store", store)
	home := store + "-home"
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	c.Dir, c.Env = home, bare(home)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := c.Start(); err != nil {
		return fmt.Errorf("inspan up: %w", err)
	}
	defer func() {
		_ = c.Process.Signal(os.Interrupt) // it may have ended
		_, _ = io.Copy(io.Discard, out)
		if ended := c.Wait(); w.upWall == 0 {
			err = fmt.Errorf("inspan up ended before it was up: %w: %s", errors.Join(err, ended), said.Bytes())
		}
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "is up") {
			w.upWall = time.Since(begun)
			break
		}
	}
	if w.upWall == 0 {
		return lines.Err()
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.idleRSS, err = resident(c.Process.Pid)
	return err
}

// bare is the environment without settings of stations and of the collector, and with another home.
func bare(home string) []string {
	out := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if name != "HOME" && name != "GOGC" && name != "XDG_CONFIG_HOME" && !strings.HasPrefix(name, "INSPAN_") && !strings.HasPrefix(name,
			"OTEL_") && !strings.HasPrefix(name, "NATS_") {
			out = append(out, e)
		}
	}
	return out
}

// resident is the resident memory of a process; 0 where the system has no /proc.
func resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("no VmRSS in the status of a process")
}

// coldBuild is the CPU of a build with an empty cache, of the standard library too.
func coldBuild(ctx context.Context, root, pkg string) (time.Duration, error) {
	cache, err := os.MkdirTemp("", "inspan-cold-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(cache)
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(cache, "program"), pkg)
	c.Dir, c.Env = root, append(os.Environ(), "GOCACHE="+cache, "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("cold build of %s: %w: %s", pkg, err, out)
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}
