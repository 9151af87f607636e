// Package notices calls people: at the terminal of a command, by a command of theirs, and beside a station by inspan
// notify.
package notices

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/notify"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Person is who sits at the terminal of a command, or sat there.
type Person struct {
	app *app.App
	notify.Attended
}

// At is the person at this terminal, called as the settings say. No one is called where there is no terminal, where it
// shows data, or where a setting is wrong, which is reported: the command goes on all the same.
func At(a *app.App) *Person {
	p := &Person{app: a}
	if !a.Term.TTY || a.JSON {
		return p
	}
	var err error
	if p.After, err = duration(a, "INSPAN_NOTIFY_AFTER", "10s"); err == nil {
		p.Sinks, err = Sinks(a)
	}
	if err != nil {
		fmt.Fprintf(a.Err, "inspan: no notices: %s\n", terminal.Sanitize(err.Error()))
	}
	if log, err := a.Logger(); err == nil {
		p.Failed = func(err error) { log.Debug().Err(err).Msg("notice left out") }
	}
	p.Acted(time.Now())
	return p
}

// Saw calls the person where an event of a run is worth it.
func (p *Person) Saw(item client.Item) {
	if n, ok := Of(p.app, item.State, item.Event, item.Payload); ok {
		p.See(time.Now(), n)
	}
}

// Sinks are what takes notices to a person, as the settings say: the terminal, where there is one that shows no data,
// and the person's command.
func Sinks(a *app.App) ([]notify.Sink, error) {
	var sinks []notify.Sink
	form := a.Lookup("INSPAN_NOTIFY_TERMINAL", string(notify.Auto))
	if !slices.Contains(notify.Forms(), form) {
		return nil, app.Usage("notify.terminal is %q, want one of %s", form, strings.Join(notify.Forms(), ", "))
	}
	if a.Term.TTY && !a.JSON && form != string(notify.Off) {
		sinks = append(sinks, notify.Terminal{Out: a.Out, Form: notify.Form(form), Env: os.Getenv})
	}
	command := a.Lookup("INSPAN_NOTIFY_COMMAND", "")
	if command == "" {
		return sinks, nil
	}
	limit, err := duration(a, "INSPAN_NOTIFY_TIMEOUT", "10s")
	if err != nil {
		return nil, err
	}
	log, err := a.Logger()
	if err != nil {
		return nil, err
	}
	var secrets []string
	for _, s := range service.Table() {
		if s.Secret {
			secrets = append(secrets, s.Variable, strings.TrimPrefix(s.Variable, service.Prefix+"_"), s.Standard)
		}
	}
	c, err := notify.NewCommand(notify.CommandConfig{Args: strings.Split(command, ","), Limit: limit,
		Env:    notify.Without(os.Environ(), secrets),
		Failed: func(err error) { log.Debug().Err(err).Msg("command of notices failed") }})
	if err != nil {
		return nil, app.Usage("notify.command: %w", err)
	}
	return append(sinks, c), nil
}

func duration(a *app.App, variable, fallback string) (time.Duration, error) {
	text := a.Lookup(variable, fallback)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, app.Usage("%s is %q, want a time such as 10s", variable, text)
	}
	return d, nil
}

// Of is the notice that an event of a run gives, with the command to type.
func Of(a *app.App, s run.State, e events.Event, p events.Payload) (n notify.Notice, ok bool) {
	if n, ok = notify.Of(s, e, p); !ok {
		return n, false
	}
	words := []string{"inspect", n.Run}
	switch n.Kind {
	case notify.Gate, notify.Reminder:
		words = []string{"approve", n.Run + "/" + n.Gate}
	case notify.Paused:
		words = []string{"resume", n.Run}
	case notify.Completed, notify.Failed:
	}
	n.Command = a.CommandLine(words...)
	return n, true
}
