package soak

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/natsserver"
)

// serve names the folder of a server: a process of this test with it is that server.
const (
	serve     = "INSPAN_SOAK_SERVE"
	serveLazy = "INSPAN_SOAK_LAZY"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serve); dir != "" {
		serveUntilClosed(dir)
		return
	}
	m.Run() // its code is that of the process
}

// serveUntilClosed is a NATS server until its standard input ends. Each line there is answered with its goroutines.
func serveUntilClosed(dir string) {
	s, err := natsserver.Start(natsserver.Config{Name: "soak", StoreDir: dir, Port: -1, LazySync: os.Getenv(serveLazy) != ""})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return // whoever waits for its address hears the end of its output
	}
	fmt.Println(s.URL())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(runtime.NumGoroutine())
	}
	_ = in.Err() // the other end of the pipe has gone, either way
	s.Shutdown()
}

// child is a NATS server as a process of its own, so that its memory is its own.
type child struct {
	t   *testing.T
	dir string
	url string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs a server on a folder and returns once it can be connected to. lazy leaves syncing to its timer.
func start(t *testing.T, dir string, lazy bool) *child {
	t.Helper()
	c := &child{t: t, dir: dir, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), serve+"="+dir, "GOGC=100") // its memory is what a station's is
	if lazy {
		c.cmd.Env = append(c.cmd.Env, serveLazy+"=1")
	}
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	c.url = c.line()
	return c
}

func (c *child) line() string {
	c.t.Helper()
	l, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("the server does not answer: %v", err)
	}
	return strings.TrimSpace(l)
}

// goroutines of the server.
func (c *child) goroutines() int {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Fatal(err)
	}
	n, err := strconv.Atoi(c.line())
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// resident is the server's memory in MiB; ok is false where the machine does not tell.
func (c *child) resident() (mib float64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	for l := range strings.Lines(string(b)) {
		if rest, is := strings.CutPrefix(l, "VmRSS:"); is {
			var kib float64
			_, err := fmt.Sscan(rest, &kib)
			return kib / 1024, err == nil
		}
	}
	return 0, false
}

// kill ends the server as a crash does.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	_ = c.cmd.Wait()
}

// files is what the server's files take, in bytes.
func (c *child) files() int64 {
	c.t.Helper()
	var sum int64
	err := filepath.WalkDir(c.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file that is gone meanwhile takes nothing
		}
		if i, err := d.Info(); err == nil {
			sum += i.Size()
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return sum
}

// heap is what this process, the services and the test, holds after a collection, in MiB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
