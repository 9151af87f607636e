package follow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func TestTeller(t *testing.T) {
	token := func(text string) client.Piece {
		return client.Piece{Event: "token", Step: "s", Turn: 1, Attempt: 1, Text: text}
	}
	think := client.Piece{Event: "thinking", Step: "s", Turn: 1, Attempt: 1, Text: "hm"}
	done := client.Item{Payload: &events.TurnFinishedData{Step: "s", Turn: 1, Text: "one\ntwo"}}
	play := func(tty bool, items ...any) string {
		var out bytes.Buffer
		a := &app.App{Printer: app.Printer{Out: &out}}
		a.Term.TTY = tty
		tell := newTextPrinter(a)
		for _, i := range items {
			switch i := i.(type) {
			case client.Piece:
				tell.piece(i)
			case client.Item:
				tell.event(i)
			}
		}
		return strings.ReplaceAll(out.String(), "\n", "|")
	}
	const head = "── step s, turn 1|"
	t.Setenv("NO_COLOR", "1")
	for _, c := range []struct {
		name, want string
		tty        bool
		items      []any
	}{
		{"OBS-9 a pipe gets whole lines only", head + "one|", false, []any{token("o"), token("ne\ntw")}},
		{"OBS-9 a terminal gets text as it comes", head + "one|tw", true, []any{token("o"), token("ne\ntw")}},
		{"the event says the rest", head + "one|two|", false, []any{token("o"), token("ne\nt"), done}},
		{"text that comes after its event is old", head + "one|two|", true, []any{token("one\ntwo"), done, token("x")}},
		{"where nothing came the event says all", head + "one|two|", false, []any{done}},
		{"OBS-10 thinking is apart", "── step s, turn 1, thinking|hm|" + head + "one|two|", false, []any{think, token("one\ntwo"), done}},
		{"a retry is said", head + "wro|── asked again, what came before does not count|" + head + "one|two|", true,
			[]any{token("wro"), client.Piece{Event: "token", Step: "s", Turn: 1, Again: true}, token("one\ntwo"), done}},
		{"the log has the truth", head + "lie|── the text as it is stored|" + head + "one|two|", true, []any{token("lie"), done}},
		{"what others wrote cannot drive the terminal", head + "·[2J|", true, []any{token("\x1b[2J"), client.Piece{Event: "token", Step: "s", Turn: 1, Done: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(c.tty, c.items...); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
