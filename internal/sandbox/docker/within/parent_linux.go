package within

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/seccomp"
)

const (
	// endMax is how long all that a command started may take to be gone.
	endMax = 10 * time.Second
	// drainIdle is how long an output may stay silent after everything is gone: it matters only where a process of
	// another command of the same container holds it.
	drainIdle = 500 * time.Millisecond
	// ready is how many threads are made before a command begins: later its processes may have taken all there are.
	ready = 10
)

// family is a command and all it started. Its processes are this one's descendants for ever: who loses its parent gets
// this one.
type family struct {
	line  *Line
	pid   int
	start time.Time

	ended  chan struct{} // closed when the command itself has ended; status is set before
	status unix.WaitStatus
	exited chan struct{} // closed when there is no descendant any more

	killed chan struct{} // closed when all is to end
	kill   func()        // closes it

	asked   sync.Mutex  // held while a question is answered
	input   chan []byte // what is to be written to the command; one at most, since each is asked for. Closed by control
	outputs sync.WaitGroup
	over    atomic.Bool // nothing is alive: outputs give what they have
}

// parent starts one command and stays until all of it is gone.
func parent(line *Line) error {
	signal.Notify(make(chan os.Signal, 1)) // commands can send signals here; those that can be caught do nothing
	if err := hide(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // on this thread; the engine did so for all
		return fmt.Errorf("disable new privileges: %w", err)
	}
	if err := seccomp.Load(seccomp.Profile{}); err != nil {
		return err
	}
	threads(ready)
	var order Start
	if err := line.Want(FrameOrder, &order); err != nil {
		return err
	}
	f := &family{line: line, ended: make(chan struct{}), exited: make(chan struct{}), killed: make(chan struct{}),
		input: make(chan []byte, 1)}
	f.kill = sync.OnceFunc(func() { close(f.killed) })
	in, outs, err := f.begin(order)
	if err != nil {
		return line.SendJSON(FrameBegun, Begun{Fault: err.Error()})
	}
	if err := line.SendJSON(FrameBegun, Begun{PID: f.pid}); err != nil {
		f.kill()
	}
	go f.reap()
	go f.control()
	go f.feed(in)
	for kind, r := range outs {
		f.outputs.Go(func() { f.pass(kind, r) })
	}
	end := f.finish(outs)
	f.asked.Lock() // for good: what was asked before is answered before
	return line.SendJSON(FrameEnd, end)
}

// finish waits for the command, ends what it left, and tells of both.
func (f *family) finish(outs map[Kind]*os.File) End {
	var end End
	select {
	case <-f.ended:
	case <-f.killed:
		select {
		case <-f.ended:
		default:
			end.Killed = true
		}
	}
	end.Left = !f.endAll()
	f.over.Store(true)
	for _, r := range outs {
		_ = r.SetReadDeadline(time.Now().Add(drainIdle)) // of a pipe, which takes one
	}
	f.outputs.Wait()
	end.WallUS = time.Since(f.start).Microseconds()
	if end.Left {
		return end
	}
	if end.Code = f.status.ExitStatus(); f.status.Signaled() {
		end.Signal = int(f.status.Signal())
		end.Code = 128 + end.Signal
	}
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &u) == nil {
		end.UserUS, end.SystemUS = micros(u.Utime), micros(u.Stime)
		end.MaxRSS = u.Maxrss << 10
		end.ReadBytes, end.WriteBytes = int64(u.Inblock)*512, int64(u.Oublock)*512 // getrusage(2) counts blocks of 512
	}
	return end
}

func micros(t unix.Timeval) int64 { return int64(t.Sec)*1_000_000 + int64(t.Usec) }

// begin starts the command. in is nil where it has no input; outs are our ends by what their frames are.
func (f *family) begin(order Start) (in *os.File, outs map[Kind]*os.File, err error) {
	if len(order.Args) == 0 {
		return nil, nil, errors.New("no program")
	}
	env := local.Env(order.Env)
	path, err := env.Look(order.Args[0], order.Dir)
	if err != nil {
		return nil, nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	var theirs []*os.File
	defer func() {
		for _, file := range theirs {
			_ = file.Close() // the command has its own
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	files := make([]*os.File, 3)
	if order.Stdin {
		files[0], in = pipe()
	} else {
		files[0], err = os.Open(os.DevNull)
	}
	outs = map[Kind]*os.File{}
	outs[FrameOut], files[1] = pipe()
	if theirs = append(theirs, files[0], files[1]); order.One {
		files[2] = files[1]
	} else {
		outs[FrameErr], files[2] = pipe()
		theirs = append(theirs, files[2])
	}
	if err != nil {
		return nil, nil, err
	}
	f.start = time.Now()
	proc, err := os.StartProcess(path, order.Args, &os.ProcAttr{Dir: order.Dir, Env: env.List(), Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, nil, err
	}
	f.pid = proc.Pid
	_ = proc.Release() // it is waited for with all others
	// Where memory is short, the kernel ends a command before its parent.
	_ = os.WriteFile("/proc/"+strconv.Itoa(f.pid)+"/oom_score_adj", []byte("500"), 0)
	return in, outs, nil
}

// reap waits for every descendant that ends.
func (f *family) reap() {
	defer close(f.exited)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return // there is none
		case pid == f.pid && (status.Exited() || status.Signaled()):
			f.status = status
			close(f.ended)
		}
	}
}

// control does what the toolrunner says, and ends everything where it says no more.
func (f *family) control() {
	defer f.kill()
	defer close(f.input)
	for open := true; ; {
		kind, data, err := f.line.Next()
		switch {
		case err != nil || kind == FrameKill:
			return
		case kind == FrameInput && open:
			select {
			case f.input <- append([]byte{}, data...):
			default:
				return // it was not asked for
			}
		case kind == FrameInputEnd && open:
			open = false
			select {
			case f.input <- nil:
			default:
				return
			}
		case kind == FrameQuestion:
			var q Question
			if json.Unmarshal(data, &q) != nil {
				return
			}
			f.asked.Lock()
			err := f.line.SendJSON(FrameAnswer, f.answer(q))
			f.asked.Unlock()
			if err != nil {
				return
			}
		}
	}
}

// feed writes input to the command and says when it was taken. It may be left behind by a command that does not read.
func (f *family) feed(in *os.File) {
	for data := range f.input {
		if data == nil {
			break
		}
		if in != nil {
			_, _ = in.Write(data) // a command that closed its input is sent the rest in vain
		}
		if f.line.Send(FrameTaken, nil) != nil {
			break
		}
	}
	if in != nil {
		_ = in.Close()
	}
}

// pass sends an output until its end.
func (f *family) pass(kind Kind, r *os.File) {
	buf := make([]byte, Chunk)
	for {
		if f.over.Load() {
			_ = r.SetReadDeadline(time.Now().Add(drainIdle))
		}
		n, err := r.Read(buf)
		if n > 0 && f.line.Send(kind, buf[:n]) != nil {
			f.kill() // no one receives it any more
			_, _ = io.Copy(io.Discard, r)
			return
		}
		if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && !f.over.Load()) {
			return
		}
	}
}

// threads makes that many threads, which the runtime keeps and uses again.
func threads(n int) {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC) != nil {
		return
	}
	var held, done sync.WaitGroup
	held.Add(n)
	for range n {
		done.Go(func() {
			var b [1]byte
			held.Done()
			_, _ = unix.Read(fds[0], b[:]) // a call that blocks takes a thread
		})
	}
	held.Wait()
	_, _ = unix.Write(fds[1], make([]byte, n))
	done.Wait()
	_, _ = unix.Close(fds[0]), unix.Close(fds[1]) // of a pipe without data
}
