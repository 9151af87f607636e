package tutorials

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// terminal is a shell that a reader types into.
type terminal struct {
	in   io.WriteCloser
	cmd  *exec.Cmd
	done chan struct{} // closed when the shell has ended and all is read

	mu      sync.Mutex
	printed bytes.Buffer  // since the last command
	more    chan struct{} // closed and replaced when something was printed
}

// open starts a shell in dir. It and what it started end with the test.
func open(t *testing.T, dir string, env []string) *terminal {
	t.Helper()
	s := &terminal{cmd: exec.Command("/bin/sh"), done: make(chan struct{}), more: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, env
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stdout = s
	s.cmd.Stderr = s
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // the shell is interrupted
	}()
	t.Cleanup(func() {
		_ = s.in.Close()
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT) // the reader's Ctrl-C; all may have ended
		<-s.done
	})
	return s
}

// Write implements io.Writer for what the shell prints.
func (s *terminal) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printed.Write(b)
	close(s.more)
	s.more = make(chan struct{})
	return len(b), nil
}

// look returns what was printed since the last command, and a channel that is closed when there is more.
func (s *terminal) look() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printed.String(), s.more
}

// escapes are the colours and movements of a terminal.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// patience is how long a command may take on a machine that is busy with all other tests: minutes, where seconds do.
const patience = 8 * time.Minute

const mark = "@@tutorial-command-ended"

// run types a command, and waits until it has ended and printed what the page shows; where stays is set, until it has
// printed that.
func (s *terminal) run(t *testing.T, st step, stays bool) error {
	waited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.mu.Lock()
	s.printed.Reset()
	s.mu.Unlock()
	input := "{\n" + st.command + "\n} </dev/null\n" // the shell reads its own commands from stdin
	if !stays {
		input += fmt.Sprintf("printf '\\n%s %%d\\n' $?\n", mark)
	}
	if _, err := io.WriteString(s.in, input); err != nil {
		return fmt.Errorf("the shell has ended: %w", err)
	}
	for {
		text, more := s.look()
		out, code, ended := strings.Cut(text, "\n"+mark+" ")
		fault := matches(st.shows, split(out))
		switch {
		case stays && fault == "":
			return nil
		case ended && strings.HasSuffix(code, "\n"):
			if code != "0\n" {
				return fmt.Errorf("exit %s, printed:\n%s", strings.TrimSpace(code), out)
			}
			if fault != "" {
				return fmt.Errorf("%s\n\nall that was printed:\n%s", fault, out)
			}
			return nil
		}
		select {
		case <-more:
		case <-waited.Done():
			return fmt.Errorf("after %s: %s\n\nall that was printed:\n%s", patience, fault, out)
		case <-s.done:
			return fmt.Errorf("the shell has ended; printed:\n%s", text)
		}
	}
}

// interrupt is Ctrl-C: it reaches what the shell runs, and not the shell.
func (s *terminal) interrupt() error {
	id := strconv.Itoa(s.cmd.Process.Pid)
	children, err := os.ReadFile("/proc/" + id + "/task/" + id + "/children")
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGINT)
		}
		if err != nil {
			return fmt.Errorf("interrupt %s: %w", child, err)
		}
	}
	return nil
}

func split(out string) []string {
	out = strings.Trim(escapes.ReplaceAllString(out, ""), "\n")
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}
