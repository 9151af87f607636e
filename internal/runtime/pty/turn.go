package pty

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// echoWait bounds how long the program takes to show what was pasted, enterWait to take Enter, which is pressed at
	// most maxEnters times.
	echoWait  = time.Minute
	enterWait = 5 * time.Second
	maxEnters = 3
	// settle is how long a program must have shown that it works no more, where it shows nothing else at the end of a
	// turn.
	settle = 500 * time.Millisecond
	// maxQuestions is how many questions of one program are answered.
	maxQuestions = 32
	// tailLength is how many letters of the end of a prompt are looked for on the screen.
	tailLength = 24
	// maxExcerpt is how much of the screen an error shows, in bytes.
	maxExcerpt = 600
)

// written is something that is typed.
type written struct {
	text []byte
	done chan error
}

// write is the one goroutine that writes to the terminal.
func (c *conversation) write() {
	for {
		select {
		case <-c.life.Done():
			return
		case w := <-c.writes:
			w.done <- c.pieces(w.text)
		case b := <-c.replies:
			_ = c.pieces(b) // where that fails the program has ended, which the reader sees
		}
	}
}

func (c *conversation) pieces(b []byte) error {
	for len(b) > 0 {
		n, err := c.terminal.Write(b[:min(chunk, len(b))])
		if err != nil {
			return fmt.Errorf("write to the terminal: %w", err)
		}
		b = b[n:]
	}
	return nil
}

// reply answers the program about its terminal.
func (c *conversation) reply(b []byte) {
	select {
	case c.replies <- b:
	default: // it reads none of them
	}
}

// keys types a text, and returns when the program's side of the terminal has taken it.
func (c *conversation) keys(ctx context.Context, text string) error {
	w := written{[]byte(text), make(chan error, 1)}
	select {
	case c.writes <- w:
	case <-c.life.Done():
		return context.Cause(c.life)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-c.life.Done():
		return context.Cause(c.life)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pasted is a prompt as a terminal sends it: as text, whatever it contains.
func pasted(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return '\r'
		case r == '\t':
			return r
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return "\x1b[200~" + text + "\x1b[201~"
}

// letters are the letters and digits of a text: what a screen shows of it however it breaks lines.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

func tailOf(prompt string) string {
	all := []rune(letters(prompt))
	return string(all[max(0, len(all)-tailLength):])
}

// visible reports whether a row of the screen has a mark.
func (s *screen) visible(re *regexp.Regexp) bool { return re != nil && s.rowOf(re) >= 0 }

// rowOf is the last row with a mark; -1 where there is none.
func (s *screen) rowOf(re *regexp.Regexp) int {
	rows := s.text()
	for i := len(rows) - 1; i >= 0; i-- {
		if re.MatchString(rows[i]) || re.MatchString(rows[i]+" ") {
			return i
		}
	}
	return -1
}

// echoed reports whether a prompt stands where the program takes one; mu is held. atReady is false where the program
// shows no such place, and then the whole screen counts.
func (c *conversation) echoed(tail string) (is, atReady bool) {
	at := c.screen.rowOf(c.marks.ready)
	rows := c.screen.text()[max(0, at):]
	shown := strings.Join(rows, "\n")
	return c.marks.echo != nil && c.marks.echo.MatchString(shown) || strings.Contains(letters(shown), tail), at >= 0
}

// excerpt is the end of what the screen shows, for an error.
func (s *screen) excerpt() string {
	text := strings.TrimSpace(s.shot())
	if text == "" {
		return "empty"
	}
	return fmt.Sprintf("%q", strings.ToValidUTF8(text[max(0, len(text)-maxExcerpt):], ""))
}

// shot is what the screen shows, without rows that are empty.
func (s *screen) shot() string {
	var b strings.Builder
	for _, row := range s.text() {
		if strings.TrimSpace(row) != "" {
			b.WriteString(row + "\n")
		}
	}
	return b.String()
}

// errAsked is a question that ends a turn.
type errAsked struct{ why string }

func (e *errAsked) Error() string { return e.why }

// errLate means that a program did not show in time what was waited for.
var errLate = errors.New("the program did not show it in time")

// until waits until something is so of the screen, and answers questions meanwhile; the time for that counts from the
// last answer, and 0 is for ever. so is called with mu held.
func (c *conversation) until(ctx context.Context, wait time.Duration, so func() bool) error {
	var late, retry <-chan time.Time
	restart := func() {
		if wait > 0 {
			late = time.After(wait)
		}
	}
	restart()
	for {
		c.mu.Lock()
		q, row := c.question()
		done, news, open := q < 0 && so(), c.news, len(c.answered) > 0
		c.mu.Unlock()
		if done {
			return nil
		}
		if q >= 0 {
			if err := c.answer(ctx, q, row); err != nil {
				return err
			}
			restart()
			continue
		}
		switch {
		case !open:
			retry = nil
		case retry == nil:
			retry = time.After(enterWait)
		}
		select {
		case <-news:
		case <-retry:
			retry = nil
			if err := c.again(ctx); err != nil {
				return err
			}
		case <-late:
			return errLate
		case <-c.life.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			if so() { // it showed that before it ended
				return nil
			}
			return context.Cause(c.life)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// question is one that is shown and not answered; -1 where there is none. A row that the prompt has is no question. mu
// is held.
func (c *conversation) question() (q int, row string) {
	for i, re := range c.marks.questions {
		if at := c.screen.rowOf(re); at >= 0 && !c.has(i) {
			row = strings.TrimSpace(c.screen.text()[at])
			if said := letters(row); said == "" || !strings.Contains(c.given, said) {
				return i, row
			}
		}
	}
	return -1, ""
}

// has reports whether a question that is shown was answered; mu is held.
func (c *conversation) has(q int) bool {
	_, is := c.answered[q]
	return is
}

// again types the answers of questions that are still shown: a program may not have taken keys yet when it shows one.
func (c *conversation) again(ctx context.Context) error {
	c.mu.Lock()
	var typed []string
	for _, keys := range c.answered {
		if keys != "" {
			typed = append(typed, keys)
		}
	}
	c.questions += len(typed)
	n := c.questions
	c.mu.Unlock()
	if n > maxQuestions {
		return &errAsked{fmt.Sprintf("it does not take the answers to what it asks on its screen, after %d", maxQuestions)}
	}
	for _, keys := range typed {
		if err := c.keys(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// typed types the answer to a question.
func (c *conversation) typed(ctx context.Context, q int, keys string) error {
	c.mu.Lock()
	if c.has(q) {
		c.answered[q] = keys
	}
	c.mu.Unlock()
	return c.keys(ctx, keys)
}

// answer types what the runtime or the gatekeeper says, or ends the turn.
func (c *conversation) answer(ctx context.Context, q int, row string) error {
	c.mu.Lock()
	c.answered[q] = ""
	c.questions++
	n, shot := c.questions, c.screen.shot()
	c.mu.Unlock()
	is := c.terms.Questions[q]
	switch {
	case is.Action == events.QuestionFail:
		return &errAsked{fmt.Sprintf("it asks on its screen, and its runtime has no answer: %.200q", row)}
	case n > maxQuestions:
		return &errAsked{fmt.Sprintf("it asked more than %d questions on its screen, the last one %.200q", maxQuestions, row)}
	case is.Action == events.QuestionAnswer:
		return c.typed(ctx, q, is.Yes)
	}
	input, err := json.Marshal(map[string]string{"question": row, "screen": shot})
	if err != nil {
		return err
	}
	t := runtime.Tool{ID: fmt.Sprintf("question-%d", n), Name: events.ToolOther, Title: row, Input: input}
	v, err := c.permit(ctx, t)
	if err != nil {
		return err
	}
	if !v.Allowed {
		if is.No == "" {
			return &errAsked{fmt.Sprintf("it asked on its screen, and was refused: %.200q: %.200q", row, v.Reason)}
		}
		return c.typed(ctx, q, is.No)
	}
	err = c.typed(ctx, q, is.Yes)
	t.Ended, t.Failed, t.Output = true, err != nil, "answered with yes"
	c.host.Update(runtime.Update{Kind: runtime.ToolCall, Tool: t})
	return err
}

// permit asks the gatekeeper for as long as the program lives: an answer to one that has ended is of no use.
func (c *conversation) permit(ctx context.Context, t runtime.Tool) (runtime.Permission, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	v, err := c.host.Permit(ctx, t)
	if err != nil && c.life.Err() != nil {
		err = context.Cause(c.life)
	}
	return v, err
}

// Prompt implements runtime.Conversation.
func (c *conversation) Prompt(ctx context.Context, text string) (runtime.Reply, error) {
	err := c.turn(ctx, text)
	c.show()
	c.mu.Lock()
	r := runtime.Reply{Text: strings.TrimRight(c.words.String()+c.screen.shot(), "\n")}
	c.mu.Unlock()
	if asked, ok := errors.AsType[*errAsked](err); ok {
		r.Failed, r.Reason = true, asked.why
		return r, nil
	}
	if err != nil {
		return runtime.Reply{}, err
	}
	return r, nil
}

func (c *conversation) turn(ctx context.Context, text string) error {
	tail := tailOf(text)
	c.mu.Lock()
	c.given = letters(text)
	c.mu.Unlock()
	if err := c.keys(ctx, pasted(text)); err != nil {
		return err
	}
	err := c.until(ctx, echoWait, func() bool { is, _ := c.echoed(tail); return is })
	if errors.Is(err, errLate) {
		return c.notTaken("did not show the prompt that was pasted")
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.words, c.printed, c.ended, c.worked = runtime.Words{}, nil, false, false
	c.mu.Unlock()
	if err := c.enter(ctx, tail); err != nil {
		return err
	}
	for {
		if err := c.until(ctx, 0, c.over); err != nil || c.marks.end != nil {
			return err
		}
		if quiet, err := c.settled(ctx); err != nil || quiet {
			return err
		}
	}
}

func (c *conversation) notTaken(why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%w: the program %s; its screen: %s", runtime.ErrProtocol, why, c.screen.excerpt())
}

// enter presses Enter until the program has taken the prompt: it works, or the prompt does not stand any more where one
// is taken. Questions are answered first, as Enter would answer them.
func (c *conversation) enter(ctx context.Context, tail string) error {
	for range maxEnters {
		if err := c.keys(ctx, "\r"); err != nil {
			return err
		}
		began := func() bool { return c.worked || c.ended }
		stands := func() bool { is, at := c.echoed(tail); return at && is }
		for {
			err := c.until(ctx, enterWait, func() bool { return began() || !stands() })
			if errors.Is(err, errLate) {
				break // and press it again
			}
			if err != nil {
				return err
			}
			// A screen that is drawn anew is empty for a moment.
			if err := c.until(ctx, settle, func() bool { return began() || stands() }); err != nil && !errors.Is(err, errLate) {
				return err
			}
			c.mu.Lock()
			taken := began() || !stands()
			c.mu.Unlock()
			if taken {
				return nil
			}
		}
	}
	return c.notTaken(fmt.Sprintf("did not take Enter, which was pressed %d times", maxEnters))
}

// over reports whether the turn has ended; mu is held.
func (c *conversation) over() bool {
	if c.marks.end != nil {
		return c.ended
	}
	return c.worked && !c.screen.visible(c.marks.busy) && c.screen.visible(c.marks.ready)
}

// settled reports whether the turn is still over after a while.
func (c *conversation) settled(ctx context.Context) (bool, error) {
	t := time.NewTimer(settle)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.life.Done():
		return false, context.Cause(c.life)
	case <-ctx.Done():
		return false, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q, _ := c.question()
	return q < 0 && c.over(), nil
}
