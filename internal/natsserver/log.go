package natsserver

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// lineLogger writes the server's log, one line each. Debug and trace are left out: they show what is in messages.
type lineLogger struct {
	mu sync.Mutex
	// w is guarded by mu.
	w io.Writer
}

func (l *lineLogger) line(level, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s nats %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), level, fmt.Sprintf(format, v...))
}

func (l *lineLogger) Noticef(format string, v ...any) { l.line("info", format, v...) }
func (l *lineLogger) Warnf(format string, v ...any)   { l.line("warn", format, v...) }
func (l *lineLogger) Fatalf(format string, v ...any)  { l.line("fatal", format, v...) }
func (l *lineLogger) Errorf(format string, v ...any)  { l.line("error", format, v...) }
func (l *lineLogger) Debugf(string, ...any)           {}
func (l *lineLogger) Tracef(string, ...any)           {}
