// Package mirrortest has a stand-in for other machines: it runs programs on this one, in a directory of its own.
//
// Promises: programs get the environment of a fresh machine, never that of the test. A program's leftovers live on when
// it ends, as they do on a machine, so that whoever should end them is seen to do so. End ends what is left and removes
// the directory.
package mirrortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/inspan/inspan/internal/sandbox/mirror"
)

// Machine is a directory that takes the place of a machine's home.
type Machine struct {
	Home string

	mu      sync.Mutex
	ended   bool // guarded by mu, as is what follows
	running map[int]*Process
	waits   sync.WaitGroup
}

var _ mirror.Remote = (*Machine)(nil)

// New makes a machine below a directory.
func New(dir string) (*Machine, error) {
	keepInherited()
	home, err := os.MkdirTemp(dir, "machine-")
	if err != nil {
		return nil, fmt.Errorf("make a machine: %w", err)
	}
	return &Machine{Home: home, running: map[int]*Process{}}, nil
}

// Process is a program that runs. Wait must be called once, after both outputs were read or are given up.
type Process struct {
	PID            int
	Stdin          io.WriteCloser // nil without
	Stdout, Stderr *os.File
	cmd            *exec.Cmd
	machine        *Machine
}

// errEnded means that the machine is not there any more.
var errEnded = errors.New("the machine was ended")

// Start starts a program with pipes.
func (m *Machine) Start(args []string, env []string, dir string, stdin bool) (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil, errEnded
	}
	if len(args) == 0 {
		return nil, errors.New("no program")
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + m.Home},
		env...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{cmd: cmd, machine: m}
	var child [2]*os.File
	var err error
	if p.Stdout, child[0], err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.Stderr, child[1], err = os.Pipe(); err != nil {
		return nil, errors.Join(err, p.Stdout.Close(), child[0].Close())
	}
	cmd.Stdout, cmd.Stderr = child[0], child[1]
	if stdin {
		if p.Stdin, err = cmd.StdinPipe(); err != nil {
			return nil, errors.Join(err, p.Stdout.Close(), p.Stderr.Close(), child[0].Close(), child[1].Close())
		}
	}
	err = cmd.Start()
	if cerr := errors.Join(child[0].Close(), child[1].Close()); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, errors.Join(err, p.Stdout.Close(), p.Stderr.Close())
	}
	p.PID = cmd.Process.Pid
	m.running[p.PID] = p
	m.waits.Add(1)
	return p, nil
}

// Wait returns how the program ended.
func (p *Process) Wait() *os.ProcessState {
	_ = p.cmd.Wait() // the state tells it
	_ = errors.Join(p.Stdout.Close(), p.Stderr.Close())
	p.machine.mu.Lock()
	delete(p.machine.running, p.PID)
	p.machine.mu.Unlock()
	p.machine.waits.Done()
	return p.cmd.ProcessState
}

// Run implements mirror.Remote.
func (m *Machine) Run(ctx context.Context, p mirror.Program) error {
	proc, err := m.Start(p.Args, nil, "/", p.Stdin != nil)
	if err != nil {
		return err
	}
	if p.Stdin != nil {
		go func() { // a Read of Stdin may never return
			_, _ = io.Copy(proc.Stdin, p.Stdin)
			_ = proc.Stdin.Close()
		}()
	}
	var outputs sync.WaitGroup
	outputs.Go(func() { _, _ = io.Copy(p.Stdout, proc.Stdout) })
	outputs.Go(func() { _, _ = io.Copy(p.Stderr, proc.Stderr) })
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(proc.Stdout.Close(), proc.Stderr.Close()) })
	outputs.Wait()
	if stop() {
		proc.Wait()
		return nil
	}
	go proc.Wait() // the program runs on
	return ctx.Err()
}

// Put implements mirror.Remote.
func (m *Machine) Put(_ context.Context, path string, body io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}

// Get implements mirror.Remote.
func (m *Machine) Get(_ context.Context, path string) (io.ReadCloser, error) { return os.Open(path) }

// End implements mirror.Remote.
func (m *Machine) End(context.Context) error {
	m.mu.Lock()
	m.ended = true
	for pid := range m.running {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
	}
	m.mu.Unlock()
	for range 100 {
		left := m.left()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		if len(left) == 0 {
			break
		}
	}
	m.waits.Wait()
	return os.RemoveAll(m.Home)
}

// left are the processes whose environment names the machine's home.
func (m *Machine) left() []int {
	var list []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range files {
		data, err := os.ReadFile(file)
		pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && perr == nil && bytes.Contains(data, []byte(m.Home+"/")) && pid != os.Getpid() {
			list = append(list, pid)
		}
	}
	return list
}
