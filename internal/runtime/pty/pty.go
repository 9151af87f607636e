// Package pty drives programs that have only a screen, behind a pseudo terminal.
//
// Promises: one goroutine writes to the terminal, so texts never interleave. A prompt is pasted as such, in pieces of
// at most 512 bytes and without any control character; Enter is pressed once the program shows it, and again where
// the program is seen not to have taken it. That a turn has ended is what the runtime declares: a text that the program
// shows, or one that it shows no more. A program that is silent has not ended its turn. What the program prints is
// bounded; of it only printable characters leave this package.
package pty

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	// readyWait bounds how long a program takes to begin, where its runtime does not say.
	readyWait = 3 * time.Minute
	// termWait is how long it has to end after SIGTERM, hangWait how long after it closed its terminal.
	termWait = 3 * time.Second
	hangWait = 2 * time.Second
	// shownEvery is how often at most the rows that are new on the screen are passed on.
	shownEvery = time.Second
	// chunk is the most bytes that are written at once, window how many characters a mark may be spread over.
	chunk  = 512
	window = 512
	// maxReplies bounds the answers to the program about its terminal that are not written yet.
	maxReplies = 16
)

// Driver implements runtime.Driver.
type Driver struct{}

var _ runtime.Driver = Driver{}

// marks are the compiled patterns of a runtime; nil where it has none.
type marks struct {
	ready, echo, end, busy *regexp.Regexp
	questions              []*regexp.Regexp
}

func compile(t events.RuntimeTerminal, turn string) (m marks, err error) {
	one := func(expression string) *regexp.Regexp {
		if expression == "" || err != nil {
			return nil
		}
		var re *regexp.Regexp
		if re, err = regexp.Compile(expression); err != nil {
			err = fmt.Errorf("the pattern %.64q: %w", expression, err)
		}
		return re
	}
	m = marks{ready: one(t.Ready), echo: one(t.Echo), busy: one(t.Busy),
		end: one(strings.ReplaceAll(t.End, events.TerminalTurn, turn))}
	for _, q := range t.Questions {
		m.questions = append(m.questions, one(q.Match))
	}
	if err == nil && (m.ready == nil || m.end == nil && m.busy == nil) {
		err = errors.New("the runtime does not say when its program is ready, or when its turn has ended")
	}
	return m, err
}

// conversation implements runtime.Conversation.
type conversation struct {
	program
	host  runtime.Host
	terms events.RuntimeTerminal
	marks marks

	mu sync.Mutex
	// Guarded by mu: the screen, what was printed last, whether the marks of a turn were seen since Enter was pressed,
	// what scrolled away since then, which questions are answered and still shown, and how many were.
	screen    *screen
	printed   []rune
	ended     bool
	worked    bool
	words     runtime.Words
	answered  map[int]string // what was typed
	questions int
	// given are the letters of the prompt that the program has; guarded by mu.
	given string
	// news is closed, and another one made, when the program printed something; guarded by mu.
	news chan struct{}
	// changed is true where something was printed that show has not seen; guarded by mu.
	changed bool

	showMu sync.Mutex
	shown  map[string]bool // the rows that were passed on last, guarded by showMu
}

// Start implements runtime.Driver. It returns when the program shows that it takes a prompt.
func (Driver) Start(ctx context.Context, s runtime.Spec) (runtime.Conversation, error) {
	if mode := s.Sandbox.Mode(); !sandbox.HasTerminal(mode) {
		return nil, tool.Fail(tool.Denied, "give the agent the sandbox mode bwrap or landlock, or a runtime that needs no terminal",
			fmt.Errorf("runtime %s needs a terminal, which the sandbox %s does not have", s.Runtime.Name, mode))
	}
	if s.Runtime.Terminal == nil {
		return nil, fmt.Errorf("%w: the runtime says nothing of its terminal", runtime.ErrProtocol)
	}
	t, turn := *s.Runtime.Terminal, rand.Text()
	m, err := compile(t, turn)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", runtime.ErrProtocol, err)
	}
	session, args := s.Session, t.New
	if s.Resume != "" {
		session, args = s.Resume, t.Resume
	}
	if session != "" {
		if err := s.Host.Session(ctx, session); err != nil {
			return nil, err
		}
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = strings.ReplaceAll(a, events.TranscriptSession, session)
	}
	s.Env = append(s.Env[:len(s.Env):len(s.Env)], events.TerminalTurnEnv+"="+turn, "TERM=xterm-256color",
		fmt.Sprintf("LINES=%d", Rows), fmt.Sprintf("COLUMNS=%d", Columns))
	if t.IDEnv != "" {
		s.Env = append(s.Env, t.IDEnv+"="+session)
	}
	c := &conversation{host: s.Host, terms: t, marks: m, screen: newScreen(), answered: map[int]string{},
		news: make(chan struct{})}
	c.screen.scrolled = func(row string) { c.words.Add(row + "\n") }
	c.screen.printed = func(r rune) { c.printed = append(c.printed, r) }
	if err := c.launch(ctx, s, words); err != nil {
		return nil, err
	}
	c.screen.reply = c.reply
	c.working.Go(func() { c.read(cmp.Or(s.Most, runtime.MaxPrinted)) })
	c.working.Go(c.write)
	c.working.Go(c.showing)
	if err := c.begin(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// begin waits until the program takes a prompt.
func (c *conversation) begin(ctx context.Context) error {
	wait := readyWait
	if c.terms.ReadyMS > 0 {
		wait = time.Duration(c.terms.ReadyMS) * time.Millisecond
	}
	err := c.until(ctx, wait, func() bool { return c.screen.paste && c.screen.visible(c.marks.ready) })
	if errors.Is(err, errLate) {
		c.mu.Lock()
		defer c.mu.Unlock()
		why := "does not show that it is ready"
		if c.screen.visible(c.marks.ready) {
			why = "is ready and takes no pasted text"
		}
		return fmt.Errorf("%w: after %s the program %s; its screen: %s", runtime.ErrProtocol, wait, why, c.screen.excerpt())
	}
	return err
}

// program is the process at the other end of the terminal.
type program struct {
	terminal *os.File
	process  sandbox.Process
	kill     context.CancelFunc
	gone     chan struct{} // closed when exit and err are set
	exit     sandbox.Exit
	err      error
	working  sync.WaitGroup
	// life ends with the conversation, for the reason that it has.
	life context.Context
	end  context.CancelCauseFunc
	// writes are taken in turn by one goroutine; replies are dropped where the program reads none.
	writes  chan written
	replies chan []byte
}

// launch starts the program at a terminal.
func (p *program) launch(ctx context.Context, s runtime.Spec, args []string) error {
	env, err := s.Environment()
	if err != nil {
		return err
	}
	ours, theirs, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a pseudo terminal: %w", err)
	}
	defer func() { _ = theirs.Close() }() // Start has given it to the program, or has not started
	if err := pty.Setsize(ours, &pty.Winsize{Rows: Rows, Cols: Columns}); err != nil {
		return errors.Join(fmt.Errorf("set the size of the terminal: %w", err), ours.Close())
	}
	p.terminal, p.gone = ours, make(chan struct{})
	p.writes, p.replies = make(chan written), make(chan []byte, maxReplies)
	p.life, p.end = context.WithCancelCause(context.WithoutCancel(ctx))
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	p.kill = kill
	p.process, err = s.Sandbox.Start(life, sandbox.Cmd{Args: runtime.Command(s.Runtime, s.Sandbox.Mode(), args...),
		Env: env, AnyProgram: true, Terminal: theirs})
	if err != nil {
		kill()
		return errors.Join(fmt.Errorf("start %s: %w", s.Runtime.Name, err), ours.Close())
	}
	go func() { // Close waits for it
		p.exit, p.err = p.process.Wait()
		close(p.gone)
	}()
	return nil
}

// ends waits for the end of the program, a while.
func (p *program) ends(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.gone:
		return true
	case <-t.C:
		return false
	}
}

// Close implements runtime.Conversation.
func (c *conversation) Close() {
	c.end(runtime.ErrEnded)
	select {
	case <-c.gone:
	default:
		_ = c.process.Signal(syscall.SIGTERM)
		c.ends(termWait)
	}
	c.kill()
	<-c.gone
	_ = c.terminal.Close()
	c.working.Wait()
}

// how explains the end of the program.
func (p *program) how() error {
	if !p.ends(hangWait) {
		return fmt.Errorf("%w: it closed its terminal", runtime.ErrEnded)
	}
	switch {
	case p.err != nil:
		return fmt.Errorf("%w: %w", runtime.ErrEnded, p.err)
	case p.exit.Signal != "":
		return fmt.Errorf("%w: signal %s", runtime.ErrEnded, p.exit.Signal)
	}
	return fmt.Errorf("%w: status %d", runtime.ErrEnded, p.exit.Code)
}

// read takes what the program prints until it ends or prints too much.
func (c *conversation) read(most int) {
	buf := make([]byte, 4<<10)
	for {
		n, err := c.terminal.Read(buf)
		if most -= n; most < 0 {
			c.end(runtime.ErrFlood)
			c.kill()
			return
		}
		c.take(buf[:n])
		if err != nil {
			c.mu.Lock()
			last := c.screen.excerpt()
			c.mu.Unlock()
			c.end(fmt.Errorf("%w; its screen: %s", c.how(), last))
			return
		}
	}
}

// take puts what was printed on the screen, and looks for the marks of a turn.
func (c *conversation) take(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.screen.Write(b)
	c.changed = true
	text := string(c.printed)
	has := func(re *regexp.Regexp) bool { return re != nil && (re.MatchString(text) || c.screen.visible(re)) }
	c.worked = c.worked || has(c.marks.busy)
	c.ended = c.ended || has(c.marks.end)
	c.printed = append(c.printed[:0], c.printed[max(0, len(c.printed)-window):]...)
	for i, re := range c.marks.questions {
		if !c.screen.visible(re) {
			delete(c.answered, i)
		}
	}
	close(c.news)
	c.news = make(chan struct{})
}

// showing passes on what is new on the screen until the conversation ends.
func (c *conversation) showing() {
	t := time.NewTicker(shownEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.show()
		case <-c.life.Done():
			return
		}
	}
}

// show passes on the rows that are new on the screen.
func (c *conversation) show() {
	c.showMu.Lock()
	defer c.showMu.Unlock()
	c.mu.Lock()
	rows, changed := c.screen.text(), c.changed
	c.changed = false
	c.mu.Unlock()
	if !changed {
		return
	}
	now := make(map[string]bool, len(rows))
	var fresh strings.Builder
	for _, row := range rows {
		if row != "" && !c.shown[row] && !now[row] {
			fresh.WriteString(row + "\n")
		}
		now[row] = true
	}
	if c.shown = now; fresh.Len() > 0 {
		c.host.Update(runtime.Update{Kind: runtime.Text, Text: fresh.String()})
		return
	}
	c.host.Update(runtime.Update{Kind: runtime.Tokens}) // a sign of life
}
